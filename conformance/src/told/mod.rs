//! What is told to `tracing`: collected, and compared with the table that documents it.

mod collector;
mod documented;

pub use collector::{Event, Told, Value};
pub use documented::{Documented, Row};
