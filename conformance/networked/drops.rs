//! Guards that are dropped where nothing can be awaited.

use std::cell::RefCell;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::Guard;
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::runtime::Runtime;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::child::Child;
use crate::driver;
use crate::roles::{self, Words};

/// More than [`LATE`], so that a name which is free only after two of them is late.
const TTL: Duration = Duration::from_secs(2);
const LATE: Duration = Duration::from_millis(1_500);
/// The longest that the drop of a guard may take.
const AT_MOST: Duration = Duration::from_millis(50);
const GUARDS: usize = 5;
/// How often a scene is played in which a drop takes longer: once it may have lost the processor.
const TIMES: usize = 3;

pub(crate) async fn f11_c157_guards_dropped_anywhere_neither_block_nor_panic() -> Verdict {
    let scenes = ["outside", "without", "shutdown", "thread_local", "unwind"];
    let done = scenes.map(scene_without_a_block);
    for (scene, verdict) in scenes.iter().zip(futures_util::future::join_all(done).await) {
        verdict.map_err(|failure| Failure::failed(format!("{scene}: {}", failure.why())))?;
    }
    Ok(())
}

/// In one of a few tries no drop of a scene takes long. One that blocks does so in each.
async fn scene_without_a_block(scene: &str) -> Verdict {
    let mut took = Vec::new();
    for _ in 0..TIMES {
        let longest = one_scene(scene).await?;
        if longest <= AT_MOST {
            return Ok(());
        }
        took.push(longest);
    }
    Err(Failure::failed(format!("the longest drop of each try took {took:?}")))
}

/// Plays it and says how long the longest of its drops took.
async fn one_scene(scene: &str) -> Result<Duration, Failure> {
    let server = driver::shared().await?;
    let url = format!("{}?prefix=drops-{scene}", server.url());
    let mut child = Child::start("drops", &[&scene, &url, &TTL.as_millis()])?;
    let told = child.hear().await?;
    child.ends_well().await?;
    let ended = Instant::now();
    let numbers: Vec<u64> = told.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let &[dropped, micros, lines] = &numbers[..] else {
        return Err(Failure::failed(format!("it said {told}")));
    };
    ensure!(dropped == GUARDS as u64, "{dropped} guards were dropped");
    // One line a guard that nobody releases any more; none where somebody does.
    let expected = match scene {
        "without" => lines == dropped,
        "shutdown" => lines <= dropped,
        _ => lines == 0,
    };
    ensure!(expected, "{lines} lines were logged");
    let locks = roles::connect(&url).await?;
    for n in 0..GUARDS {
        let lock = locks.lock(&format!("drop-{n}"))?.ttl(TTL);
        lock.acquire_within(TTL + LATE).await?.release().await?;
    }
    let free = ended.elapsed();
    ensure!(free <= TTL + LATE, "free only after {free:?}");
    Ok(Duration::from_micros(micros))
}

/// The process: drops some guards, tells how many, how long the longest of the drops took, and how
/// many lines were logged.
pub(crate) fn play(mut words: Words) -> Verdict {
    let (scene, url, ttl) = (words.next()?, words.next()?, words.millis()?);
    tracing::subscriber::set_global_default(Log)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let guards = runtime.block_on(acquire(&url, ttl))?;
    match &*scene {
        "outside" => drop(guards),
        "without" => {
            drop(runtime);
            drop(guards);
            return tell();
        }
        "shutdown" => return shut_down(runtime, guards),
        "thread_local" => in_thread_locals(guards)?,
        "unwind" => in_unwind(guards),
        _ => return Err(Failure::failed(format!("no scene {scene}"))),
    }
    tell()
}

async fn acquire(url: &str, ttl: Duration) -> Result<Vec<Timed>, Failure> {
    let locks = roles::connect(url).await?;
    let mut guards = Vec::new();
    for n in 0..GUARDS {
        guards.push(Timed(Some(locks.lock(&format!("drop-{n}"))?.ttl(ttl).acquire().await?)));
    }
    Ok(guards)
}

/// Tasks that hold the guards are dropped with their runtime.
fn shut_down(runtime: Runtime, guards: Vec<Timed>) -> Verdict {
    for guard in guards {
        runtime.spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
    }
    drop(runtime);
    tell()
}

/// The destructors of a thread's values run at its end.
fn in_thread_locals(guards: Vec<Timed>) -> Verdict {
    thread_local! {
        static KEPT: RefCell<Vec<Timed>> = const { RefCell::new(Vec::new()) };
    }
    let keeper = thread::spawn(move || KEPT.set(guards));
    keeper.join().map_err(|_| Failure::failed("the thread panicked"))
}

/// A second panic in a drop would abort the process.
fn in_unwind(guards: Vec<Timed>) {
    for guard in guards {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _guard = guard;
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
        assert!(unwound.is_err(), "it unwinds");
    }
}

/// How long the drops took.
static TOOK: Mutex<Vec<Duration>> = Mutex::new(Vec::new());
/// How many lines said that nobody is left to release.
static LINES: AtomicUsize = AtomicUsize::new(0);

fn tell() -> Verdict {
    let took = TOOK.lock().unwrap_or_else(PoisonError::into_inner);
    let longest = took.iter().max().map_or(0, Duration::as_micros);
    println!("{} {longest} {}", took.len(), LINES.load(Ordering::SeqCst));
    Ok(())
}

struct Timed(Option<Guard>);

impl Drop for Timed {
    fn drop(&mut self) {
        let begun = Instant::now();
        drop(self.0.take());
        TOOK.lock().unwrap_or_else(PoisonError::into_inner).push(begun.elapsed());
    }
}

struct Log;

/// The text of an event.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        // Into a string nothing fails.
        let _ = write!(self.0, "{value:?} ");
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        if text.0.contains("left to its TTL") {
            LINES.fetch_add(1, Ordering::SeqCst);
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
