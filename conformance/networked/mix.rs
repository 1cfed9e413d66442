//! All faults together, by chance.

use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold_conformance::proxy::{Action, Direction, Match, Proxy};
use leasehold_conformance::servers::Server;
use leasehold_conformance::{Failure, Verdict, ensure, rounds};
use tokio::time::{Instant, sleep, sleep_until};

use crate::dice::{self, Dice};
use crate::driver::{self, Operator};
use crate::roles;
use crate::watch::{Watch, Work};

const TTL: Duration = driver::SHORT;
const LATE: Duration = Duration::from_secs(3);
const NAMES: u64 = 3;

pub(crate) async fn f88_random_faults_leave_a_lock() -> Verdict {
    let seeds: Vec<u64> = match dice::asked() {
        Some(seed) => vec![seed],
        None => {
            let known = driver::SEEDS.lines().filter(|line| !line.starts_with('#'));
            let known = known.map(|line| line.parse().expect("a line is a seed"));
            known.chain((0..rounds(1, 60)).map(|_| dice::fresh())).collect()
        }
    };
    for seed in seeds {
        eprintln!("f88: LEASEHOLD_SEED={seed}");
        dice::of_seed(seed, one_mix(seed).await)?;
    }
    Ok(())
}

/// Two clients behind each of two proxies, and faults to each until the time is over.
async fn one_mix(seed: u64) -> Verdict {
    let mut dice = Dice::new(seed);
    let server = driver::durable().await?;
    let operator = Operator::of(&server).await?;
    let proxies = [
        Proxy::start(server.addr(), driver::FRAMING).await?,
        Proxy::start(server.addr(), driver::FRAMING).await?,
    ];
    let urls = (0..4).map(|n| format!("{}?timeout=300ms", proxies[n % 2].url(server.url())));
    let urls: Vec<String> = urls.collect();
    let clients = try_join_all(urls.iter().map(|url| roles::connect(url))).await?;
    let watch = Watch::default();
    let until = Instant::now() + 5 * TTL;
    let seeds: Vec<u64> = (0..8).map(|_| dice.roll()).collect();
    let workers = seeds.into_iter().enumerate().map(|(n, seed)| {
        let client = n % clients.len();
        let work = Work { client, names: NAMES, ttl: TTL, hold: TTL * 4 / 3, until };
        watch.work(&clients[client], work, Dice::new(seed))
    });
    let faults = Faults { server: &server, operator: &operator, proxies: &proxies };
    let (done, went_wrong) = tokio::join!(try_join_all(workers), faults.until(until, &mut dice));
    let (done, ()) = (done?, went_wrong?);
    watch.verdict(&format!("mix-{seed}"))?;
    let granted: usize = done.iter().map(|(granted, _)| granted).sum();
    ensure!(granted > 0, "nothing was granted");
    let near = roles::connect(server.url()).await?;
    for n in 0..NAMES {
        let lock = near.lock(&format!("name-{n}"))?.ttl(TTL);
        lock.acquire_within(2 * TTL + LATE).await?.release().await?;
    }
    Ok(())
}

struct Faults<'a> {
    server: &'a Server,
    operator: &'a Operator,
    proxies: &'a [Proxy; 2],
}

impl Faults<'_> {
    /// One after the other, each mended before the next; all is well at the end.
    async fn until(&self, end: Instant, dice: &mut Dice) -> Verdict {
        loop {
            let next = Instant::now() + dice.between(Duration::ZERO, Duration::from_millis(150));
            if next + TTL > end {
                return Ok(());
            }
            sleep_until(next).await;
            let which = dice.below(16);
            let proxy = &self.proxies[dice.below(2) as usize];
            let direction = match dice.below(2) {
                0 => Direction::ToServer,
                _ => Direction::ToClient,
            };
            let time = dice.between(Duration::ZERO, TTL);
            self.one(which, proxy, direction, time).await?;
        }
    }

    async fn one(&self, which: u64, proxy: &Proxy, on: Direction, time: Duration) -> Verdict {
        let next = || Match::command(driver::LOOK);
        match which {
            0 => proxy.cut(),
            1 => proxy.reset(),
            2 => proxy.half_close(on),
            3 => drop(proxy.on(Direction::ToServer, next(), Action::Duplicate)),
            4 => drop(proxy.on(on, next(), Action::Truncate(20))),
            5 => drop(proxy.on(on, next(), Action::Cut)),
            6 => drop(proxy.on(on, next(), Action::HalfClose)),
            7 => self.operator.one().await?,
            8 => self.operator.other().await?,
            9 => {
                self.server.pause().await?;
                sleep(time).await;
                self.server.resume().await?;
            }
            10 => self.server.restart().await?,
            11 => {
                proxy.refuse().await;
                proxy.cut();
                sleep(time).await;
                proxy.accept().await?;
            }
            12 => self.for_a_while(proxy, on, Action::Silence, time).await,
            13 => self.for_a_while(proxy, on, Action::Hold, time).await,
            14 => {
                let jitter = Action::Jitter(Duration::ZERO, TTL / 4);
                self.for_a_while(proxy, on, jitter, time).await;
            }
            _ => {
                proxy.blackhole();
                sleep(time).await;
                proxy.heal();
            }
        }
        Ok::<_, Failure>(())
    }

    async fn for_a_while(&self, proxy: &Proxy, on: Direction, action: Action, time: Duration) {
        proxy.set(on, action);
        sleep(time).await;
        proxy.heal();
    }
}
