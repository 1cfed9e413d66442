//! The tables of a document that says what is told.

use std::collections::BTreeSet;

use leasehold_api::Owner;

use super::{Event, Value};

/// What a document says of one target.
///
/// It has a heading that ends with the target (``## `leasehold` ``), and below it tables whose rows
/// are ``| level | `says` | `field`, `field?` | when |``; a field with a question mark need not be
/// there.
#[derive(Debug, Clone)]
pub struct Documented {
    rows: Vec<Row>,
}

/// A documented event or span.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Its level.
    pub level: String,
    /// The message of an event, the name of a span.
    pub says: String,
    /// The fields that it always has.
    pub fields: BTreeSet<String>,
    /// The fields that it may have.
    pub optional: BTreeSet<String>,
}

impl Documented {
    /// Reads what a document says of the events (or the spans) of `target`: the tables below its
    /// heading whose first row names `what` in the second column.
    #[must_use]
    pub fn read(document: &str, target: &str, what: &str) -> Self {
        let (mut here, mut table) = (false, false);
        let mut rows = Vec::new();
        for line in document.lines() {
            if line.starts_with('#') {
                here = line.ends_with(&format!(" `{target}`"));
            }
            let Some(cells) = cells(line) else {
                table = false;
                continue;
            };
            if cells.get(1) == Some(&what) {
                table = true;
            } else if here && table && !cells[0].starts_with('-') {
                rows.extend(Row::of(&cells));
            }
        }
        Self { rows }
    }

    /// What is documented.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// What was told and is not documented so, a sentence for each.
    #[must_use]
    pub fn denies(&self, told: &[Event]) -> BTreeSet<String> {
        told.iter().filter_map(|event| self.denies_one(event)).collect()
    }

    /// What is documented and was not told.
    #[must_use]
    pub fn misses(&self, told: &[Event]) -> Vec<&Row> {
        self.rows.iter().filter(|row| !told.iter().any(|event| row.is_of(event))).collect()
    }

    fn denies_one(&self, event: &Event) -> Option<String> {
        let Event { level, says, fields, .. } = event;
        let Some(row) = self.rows.iter().find(|row| row.is_of(event)) else {
            return Some(format!("{level} `{says}` is not documented"));
        };
        let has: BTreeSet<_> = fields.keys().map(|name| (*name).to_owned()).collect();
        let lacks: Vec<_> = row.fields.difference(&has).collect();
        let all = &row.fields | &row.optional;
        let more: Vec<_> = has.difference(&all).collect();
        if !lacks.is_empty() || !more.is_empty() {
            return Some(format!("`{says}` lacks {lacks:?} and has {more:?}"));
        }
        let odd = fields.iter().find(|(name, value)| !has_its_type(name, value));
        odd.map(|odd| format!("`{says}` has {odd:?}"))
    }
}

impl Row {
    fn of(cells: &[&str]) -> Option<Self> {
        let [level, says, fields, ..] = cells else { return None };
        let names = fields.split(',').map(|name| name.trim().trim_matches('`'));
        let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
        let some = |optional: bool| {
            let names = names.iter().filter(move |name| name.ends_with('?') == optional);
            names.map(|name| name.trim_end_matches('?').to_owned()).collect()
        };
        Some(Self {
            level: (*level).to_owned(),
            says: says.trim_matches('`').to_owned(),
            fields: some(false),
            optional: some(true),
        })
    }

    fn is_of(&self, event: &Event) -> bool {
        self.says == event.says && self.level == event.level.as_str().to_lowercase()
    }
}

/// Owners are hexadecimal texts, tokens and milliseconds numbers.
fn has_its_type(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("owner" | "next_owner", Value::Text(text)) => text.parse::<Owner>().is_ok(),
        ("owner" | "next_owner", _) => false,
        ("token", value) => matches!(value, Value::Number(_)),
        (name, value) => !name.ends_with("_ms") || matches!(value, Value::Number(_)),
    }
}

/// The cells of a table's row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}
