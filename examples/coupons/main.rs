//! Four processes with eight tasks each sell 100 coupons whose number is kept in Redis: without
//! the lock they sell more than there are, with it never.
//!
//! `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example coupons --features redis`
#![expect(clippy::print_stdout, reason = "it is a demonstration")]

use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const COUPONS: i64 = 100;
const PROCESSES: usize = 4;
const TASKS: usize = 8;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let Ok(url) = std::env::var("LEASEHOLD_URL") else {
        eprintln!("LEASEHOLD_URL names the server, for example redis://127.0.0.1:6379");
        return Ok(ExitCode::from(64));
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [shop, mode] = &arguments[..] {
        sell_in_this_process(&url, shop, mode == "locked").await?;
        return Ok(ExitCode::SUCCESS);
    }
    let without = run(&url, "unlocked").await?;
    println!("without the lock: {without} of {COUPONS} coupons sold, many of them twice");
    let with = run(&url, "locked").await?;
    println!("with the lock:    {with} of {COUPONS} coupons sold");
    let as_promised = without > COUPONS && with == COUPONS;
    println!("{}", if as_promised { "as promised" } else { "NOT as promised" });
    Ok(if as_promised { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One sale of all coupons by all processes; answers how many were sold.
async fn run(url: &str, mode: &str) -> Result<i64> {
    let shop = format!("coupons:{}:{mode}", std::process::id());
    let mut redis = connect(url).await?;
    let [stock, sold, token] = keys(&shop);
    redis.set::<_, _, ()>(&stock, COUPONS).await?;
    let seller = || Command::new(std::env::current_exe()?).args([&shop, mode]).spawn();
    let sellers: Vec<Child> = (0..PROCESSES).map(|_| seller()).collect::<std::io::Result<_>>()?;
    for mut seller in sellers {
        let status = tokio::task::spawn_blocking(move || seller.wait()).await??;
        if !status.success() {
            return Err(format!("a seller ended with {status}").into());
        }
    }
    let count = redis.get(&sold).await?;
    redis.del::<_, ()>(&[stock, sold, token]).await?;
    Ok(count)
}

async fn sell_in_this_process(url: &str, shop: &str, locked: bool) -> Result<()> {
    let locks = leasehold::connect(url).await?;
    let redis = connect(url).await?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let (lock, redis, shop) = (locks.lock(shop)?, redis.clone(), shop.to_owned());
        tasks.spawn(async move {
            loop {
                let left = if locked {
                    let guard = lock.acquire().await?;
                    let token = guard.token()?.get();
                    let left = guard.run(sell_one(redis.clone(), &shop, token)).await??;
                    guard.release().await?;
                    left
                } else {
                    sell_one(redis.clone(), &shop, 0).await?
                };
                if left <= 0 {
                    return Result::Ok(());
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    locks.close().await?;
    Ok(())
}

/// Reads the stock, thinks, writes it back: right only if nobody else does so meanwhile.
async fn sell_one(mut redis: MultiplexedConnection, shop: &str, token: u64) -> Result<i64> {
    let [stock, sold, highest] = keys(shop);
    let left: i64 = redis.get(&stock).await?;
    if left <= 0 {
        return Ok(left);
    }
    tokio::time::sleep(Duration::from_millis(2)).await;
    let sell = redis::Script::new(include_str!("sell.lua"));
    let mut sell = sell.prepare_invoke();
    sell.key(stock).key(sold).key(highest).arg(left - 1).arg(token);
    let _sold: i64 = sell.invoke_async(&mut redis).await?;
    Ok(left - 1)
}

fn keys(shop: &str) -> [String; 3] {
    ["stock", "sold", "token"].map(|key| format!("{shop}:{key}"))
}

async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let client = redis::Client::open(url.split('?').next().unwrap_or_default())?;
    let connection = client.get_multiplexed_async_connection().await;
    connection.map_err(|error| format!("LEASEHOLD_URL's server can't be reached: {error}").into())
}
