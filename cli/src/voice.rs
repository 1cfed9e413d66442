//! Standard error, written by a thread of its own: who reads it may stand still, and no renewal, and
//! no end of a command, may wait for that.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// How many texts wait for a reader; what comes on top is lost.
const MOST_UNREAD: usize = 1024;

/// For how long the end of the program waits for a reader.
const LAST_WORDS: Duration = Duration::from_millis(500);

enum Word {
    Text(Vec<u8>),
    /// Answers once all before it is written.
    Heard(SyncSender<()>),
}

/// Each write is handed on as a whole, and none fails or blocks.
pub(crate) struct Voice;

/// Waits until what was said is written, if somebody reads.
pub(crate) fn fall_silent() {
    let (heard, all) = sync_channel(1);
    if let Some(voice) = STARTED.get()
        && voice.try_send(Word::Heard(heard)).is_ok()
    {
        let _ = all.recv_timeout(LAST_WORDS); // late is as good as never
    }
}

static STARTED: OnceLock<SyncSender<Word>> = OnceLock::new();

fn started() -> &'static SyncSender<Word> {
    STARTED.get_or_init(|| {
        let (say, said) = sync_channel(MOST_UNREAD);
        // Without the thread nothing is said, as where nobody reads.
        let _ = std::thread::Builder::new().name("voice".to_owned()).spawn(move || speak(&said));
        say
    })
}

fn speak(said: &Receiver<Word>) {
    for word in said {
        match word {
            Word::Text(text) => {
                let _ = io::stderr().write_all(&text); // nobody is there to be told
            }
            Word::Heard(heard) => {
                let _ = heard.send(()); // whoever asked may not wait any more
            }
        }
    }
}

impl Write for Voice {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let _ = started().try_send(Word::Text(text.to_vec())); // nobody reads
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
