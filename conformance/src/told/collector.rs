//! A subscriber that keeps everything.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

/// Keeps every event and every span of every crate at every level. Clones are the same collector.
#[derive(Debug, Clone, Default)]
pub struct Told {
    kept: Arc<Mutex<Kept>>,
    more: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Kept {
    events: Vec<Event>,
    spans: Vec<Span>,
}

#[derive(Debug)]
struct Span {
    event: Event,
    handles: usize,
}

/// An event, or a span as it began, with what was recorded later.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// Its level.
    pub level: Level,
    /// Its target.
    pub target: &'static str,
    /// The message of an event, the name of a span.
    pub says: String,
    /// Its fields but for the message.
    pub fields: BTreeMap<&'static str, Value>,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A number without a sign.
    Number(u64),
    /// Yes or no.
    Bool(bool),
    /// Any other value, as text.
    Text(String),
}

impl Told {
    /// A collector that has heard nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The events of a target so far.
    #[must_use]
    pub fn events(&self, target: &str) -> Vec<Event> {
        let kept = self.kept();
        kept.events.iter().filter(|event| event.target == target).cloned().collect()
    }

    /// Ends when such an event was told.
    ///
    /// # Cancel safety
    ///
    /// Dropping it has no effect.
    pub async fn until(&self, is: impl Fn(&Event) -> bool) {
        let mut more = self.more.subscribe();
        // No error: this collector holds the sender.
        let _ = more.wait_for(|()| self.kept().events.iter().any(&is)).await;
    }

    /// The spans of a target so far, open or closed.
    #[must_use]
    pub fn spans(&self, target: &str) -> Vec<Event> {
        let kept = self.kept();
        let events = kept.spans.iter().map(|span| &span.event);
        events.filter(|event| event.target == target).cloned().collect()
    }

    /// How many spans of a target are open.
    #[must_use]
    pub fn open_spans(&self, target: &str) -> usize {
        let kept = self.kept();
        kept.spans.iter().filter(|span| span.event.target == target && span.handles > 0).count()
    }

    /// All that was told, as one text: to be searched for what must not stand in it.
    #[must_use]
    pub fn text(&self) -> String {
        let kept = self.kept();
        let spans = kept.spans.iter().map(|span| &span.event);
        let mut text = String::new();
        for event in kept.events.iter().chain(spans) {
            // No error: a string takes all.
            let _ = writeln!(text, "{event:?}");
        }
        text
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Event {
    fn of(metadata: &Metadata<'static>) -> Self {
        Self {
            level: *metadata.level(),
            target: metadata.target(),
            says: metadata.name().to_owned(),
            fields: BTreeMap::new(),
        }
    }
}

impl Visit for Event {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.insert(field.name(), Value::Number(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.insert(field.name(), Value::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), Value::Text(value.to_owned()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut text = value.to_string();
        let mut source = value.source();
        while let Some(error) = source {
            // No error: a string takes all.
            let _ = write!(text, ": {error}");
            source = error.source();
        }
        self.fields.insert(field.name(), Value::Text(text));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.says = text;
        } else {
            self.fields.insert(field.name(), Value::Text(text));
        }
    }
}

impl Subscriber for Told {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut event = Event::of(attributes.metadata());
        attributes.record(&mut event);
        let mut kept = self.kept();
        kept.spans.push(Span { event, handles: 1 });
        Id::from_u64(kept.spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut kept = self.kept();
        values.record(&mut kept.span(id).event);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut told = Event::of(event.metadata());
        event.record(&mut told);
        self.kept().events.push(told);
        self.more.send_replace(());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn clone_span(&self, id: &Id) -> Id {
        self.kept().span(id).handles += 1;
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut kept = self.kept();
        let span = kept.span(&id);
        span.handles -= 1;
        span.handles == 0
    }
}

impl Kept {
    fn span(&mut self, id: &Id) -> &mut Span {
        let at = usize::try_from(id.into_u64()).expect("as many as fit in memory") - 1;
        &mut self.spans[at]
    }
}
