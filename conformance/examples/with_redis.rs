//! Runs a command with a Redis of its own, named by `LEASEHOLD_URL`:
//!
//! `cargo run -p leasehold-conformance --example with_redis --all-features -- COMMAND ARGUMENT...`

use std::process::{Command, ExitCode};

use leasehold_conformance::servers::Redis;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("usage: with_redis COMMAND ARGUMENT...");
        return Ok(ExitCode::from(64));
    };
    let server = Redis::new().start().await?;
    let mut command = Command::new(program);
    command.args(arguments).env("LEASEHOLD_URL", server.url());
    let status = tokio::task::spawn_blocking(move || command.status()).await??;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
