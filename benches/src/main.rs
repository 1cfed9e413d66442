//! `leasehold-bench [FILE]`: measures for about six minutes, and writes the tables into
//! `docs/performance.md`, or the file that is named.
//!
//! `leasehold-bench --pairs redis|etcd lock|raw TASKS SECONDS`: only uncontended pairs, for a profiler.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use leasehold_bench::{Kind, Plan, WORKER, measure, only_pairs, work, write};
use leasehold_conformance::Failure;

fn main() -> ExitCode {
    let worker = std::env::var_os(WORKER).is_some();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let done = runtime.map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async { if worker { work().await } else { report().await } })
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.why());
            ExitCode::FAILURE
        }
    }
}

async fn report() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, kind, by, tasks, seconds] = &*arguments
        && option == "--pairs"
    {
        let length = Duration::from_secs(seconds.parse()?);
        let kind = if kind == "redis" { Kind::Redis } else { Kind::Etcd };
        eprintln!("{}", only_pairs(kind, by == "lock", tasks.parse()?, length).await?);
        return Ok(());
    }
    let documented = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/performance.md");
    let file = arguments.first().map_or(documented, String::as_str);
    let mut reports = Vec::new();
    for kind in [Kind::Redis, Kind::Etcd] {
        let report = measure(kind, &Plan::full(), &std::env::current_exe()?).await?;
        eprintln!("{report}");
        reports.push(report);
    }
    Ok(write(&reports, Path::new(file))?)
}
