//! The bench works, and what it counts is within the budget. Its times mean nothing here.

use std::path::Path;

use leasehold_bench::{Plan, measure, write};
use leasehold_conformance::{Verdict, ensure};

leasehold_conformance::tests! { what_the_bench_counts_is_within_the_budget }

async fn what_the_bench_counts_is_within_the_budget() -> Verdict {
    let program = Path::new(env!("CARGO_BIN_EXE_leasehold-bench"));
    let report = measure(&Plan::smoke(), program).await?;
    for pair in &report.pairs {
        ensure!(pair.requests == 2.0, "one request an acquire, one a release: {pair:?}");
    }
    for row in &report.local {
        // A waiter that is not back in line yet is released to, and not handed over to.
        let most = if row.waiters == 2 { 2.1 } else { 1.3 };
        ensure!(row.requests < most, "a hand-over is one request: {row:?}");
    }
    for row in &report.processes {
        ensure!(row.requests < 4.1, "released, asked, queued, granted: {row:?}");
    }
    ensure!(report.held.requests == 10.0, "256 renewals a request: {:?}", report.held);
    ensure!(report.held.bytes < 1024, "under 1 KiB a lock: {:?}", report.held);

    let folder = tempfile::tempdir()?;
    let file = folder.path().join("performance.md");
    ensure!(write(&report, &file).is_err(), "there is no such file");
    let marked = "before\n<!-- measured: begin -->\nstale figures\n<!-- measured: end -->\nafter\n";
    std::fs::write(&file, marked)?;
    write(&report, &file)?;
    let text = std::fs::read_to_string(&file)?;
    ensure!(text.starts_with("before\n<!-- measured: begin -->\nMeasured on "), "{text}");
    ensure!(text.ends_with("<!-- measured: end -->\nafter\n") && !text.contains("stale"), "{text}");
    ensure!(text.matches("\n### ").count() == 4, "{text}");
    Ok(())
}
