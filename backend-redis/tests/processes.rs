//! Many processes, one lock on a real Redis. This binary starts itself as the processes.

#![expect(clippy::print_stdout, reason = "the processes tell what they wrote")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use leasehold::Locks;
use leasehold_conformance::servers::Redis;
use leasehold_conformance::{Failure, OwnTest, Verdict, ensure};

const PROCESSES: usize = 20;
const ROUNDS: u64 = 50;
/// Set for a process that is one of the twenty.
const AS_CHILD: &str = "LEASEHOLD_TEST_COUNTS";

fn main() -> ExitCode {
    if std::env::var_os(AS_CHILD).is_some() {
        return child();
    }
    leasehold_conformance::run_tests(vec![OwnTest::new(
        "twenty_processes_count_to_exactly_a_thousand_under_the_lock",
        || Box::pin(twenty_processes()),
    )])
}

/// Each process adds 1 to the number in the file, 50 times, by a plain read and a plain write.
async fn twenty_processes() -> Verdict {
    let server = Redis::shared().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("number");
    std::fs::write(&file, "0")?;
    let children: Vec<Child> =
        (0..PROCESSES).map(|_| start(server.url(), &file)).collect::<Result<_, _>>()?;
    let outputs = children
        .into_iter()
        .map(|child| tokio::task::spawn_blocking(move || child.wait_with_output()));
    // What each write wrote, and the token it was written under.
    let mut writes: Vec<(u64, u64)> = Vec::new();
    for output in outputs {
        let output = output.await??;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "a process ended with {}: {errors}", output.status);
        for line in String::from_utf8(output.stdout)?.lines() {
            let (number, token) = line.split_once(' ').ok_or_else(|| Failure::failed(line))?;
            writes.push((number.parse()?, token.parse()?));
        }
    }
    let all = PROCESSES as u64 * ROUNDS;
    let number: u64 = std::fs::read_to_string(&file)?.parse()?;
    ensure!(number == all, "the number is {number}, not {all}");
    writes.sort_unstable();
    let numbers = writes.iter().map(|(number, _)| *number);
    ensure!(numbers.eq(1..=all), "some number was written twice: {writes:?}");
    let falls = writes.windows(2).find(|pair| pair[0].1 >= pair[1].1);
    ensure!(falls.is_none(), "tokens do not rise in the order of holding: {falls:?}");
    Ok(())
}

fn start(url: &str, file: &Path) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .env(AS_CHILD, url)
        .arg(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

fn child() -> ExitCode {
    let url = std::env::var(AS_CHILD).unwrap_or_default();
    let file = PathBuf::from(std::env::args().nth(1).unwrap_or_default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(count(&url, &file))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn count(url: &str, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let locks = Locks::with_backend(leasehold_redis::connect(&url.parse()?).await?);
    let lock = locks.lock("number")?.ttl(Duration::from_secs(5)).wait(Duration::from_secs(90));
    for _ in 0..ROUNDS {
        let guard = lock.acquire().await?;
        let number: u64 = std::fs::read_to_string(file)?.parse()?;
        std::fs::write(file, (number + 1).to_string())?;
        println!("{} {}", number + 1, guard.token()?);
        guard.release().await?;
    }
    locks.close().await?;
    Ok(())
}
