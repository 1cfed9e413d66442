//! The bench works, and what it counts is within the budget. Its times mean nothing here.

use std::path::Path;

use leasehold_bench::{Kind, Plan, Report, measure, write};
use leasehold_conformance::{Verdict, ensure};

leasehold_conformance::tests! { what_the_bench_counts_is_within_the_budget }

async fn what_the_bench_counts_is_within_the_budget() -> Verdict {
    let program = Path::new(env!("CARGO_BIN_EXE_leasehold-bench"));
    let redis = measure(Kind::Redis, &Plan::smoke(), program).await?;
    over_redis(&redis)?;
    let etcd = measure(Kind::Etcd, &Plan::smoke(), program).await?;
    over_etcd(&etcd)?;
    the_tables_go_between_the_marks(&[redis, etcd])
}

fn over_redis(report: &Report) -> Verdict {
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
    Ok(())
}

fn over_etcd(report: &Report) -> Verdict {
    for pair in &report.pairs {
        // The session's keepalives, the floor and a first lease are besides.
        ensure!((2.0..2.1).contains(&pair.requests), "one an acquire, one a release: {pair:?}");
    }
    for row in &report.local {
        let most = if row.waiters == 2 { 3.1 } else { 1.4 };
        ensure!(row.requests < most, "a hand-over is one request: {row:?}");
    }
    for row in &report.processes {
        ensure!(row.requests < 4.1, "released, tried, entered: {row:?}");
    }
    let held = &report.held;
    ensure!(held.requests <= 3.0, "a keepalive and a read for all: {held:?}");
    // Resident, so with so few locks the buffers of the stream of watches count for much.
    ensure!(held.bytes < 4096, "a small part of a lease of its own each: {held:?}");
    Ok(())
}

fn the_tables_go_between_the_marks(reports: &[Report]) -> Verdict {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("performance.md");
    ensure!(write(reports, &file).is_err(), "there is no such file");
    let marked = "before\n<!-- measured: begin -->\nstale figures\n<!-- measured: end -->\nafter\n";
    std::fs::write(&file, marked)?;
    write(reports, &file)?;
    let text = std::fs::read_to_string(&file)?;
    ensure!(text.starts_with("before\n<!-- measured: begin -->\n## Redis "), "{text}");
    ensure!(text.contains("\n## etcd "), "{text}");
    ensure!(text.ends_with("<!-- measured: end -->\nafter\n") && !text.contains("stale"), "{text}");
    ensure!(text.matches("\n### ").count() == 2 * 4, "{text}");
    Ok(())
}
