//! Connecting.

use std::time::{Duration, Instant};

use leasehold_api::{Backend, ErrorKind, Guarantee, Scope};
use leasehold_conformance::servers::Etcd;
use leasehold_conformance::{Verdict, ensure};
use leasehold_etcd::{Etcd as Driver, Options};

use crate::common::subject::quick;

pub(crate) async fn a_url_of_several_members_connects_and_names_its_cluster() -> Verdict {
    let cluster = quick().cluster(3).await?;
    let url = leasehold::encode_hosts(cluster.url()).into_owned();
    let client = leasehold_etcd::connect(&url::Url::parse(&url).unwrap()).await?;
    let profile = client.profile();
    assert_eq!((profile.guarantee, profile.scope), (Guarantee::Correctness, Scope::Network));
    assert_eq!(profile.ttl_floor, Duration::from_secs(1), "as its elections are quick");
    // With one member down any of the others will do.
    cluster.member(cluster.leader().await?).kill().await?;
    leasehold_etcd::connect(&url::Url::parse(&url).unwrap()).await?;
    Ok(())
}

pub(crate) async fn what_cannot_be_reached_is_said() -> Verdict {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Accepts, and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for at in [closed, silent.local_addr().unwrap()] {
        let time = Duration::from_millis(500);
        let options = Options::new([at.to_string()]).with_connect_timeout(time);
        let begun = Instant::now();
        let error = Driver::connect(options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        let took = begun.elapsed();
        ensure!(took < time * 3, "it took {took:?}");
    }
    Ok(())
}

pub(crate) async fn a_wrong_password_is_refused_and_in_no_text() -> Verdict {
    let server = Etcd::new().root_password("right").start().await?;
    let at = server.addr().to_string();
    for (options, says) in [
        (Options::new([at.clone()]).with_user("root", "hunter2"), "user or the password"),
        (Options::new([at]), "wants a user"),
    ] {
        let error = Driver::connect(options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth, "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
    Ok(())
}

pub(crate) async fn a_user_and_a_password_are_enough() -> Verdict {
    let server = Etcd::new().root_password("p/a@ss").start().await?;
    let options = Options::new([server.addr().to_string()]).with_user("root", "p/a@ss");
    let client = Driver::connect(options).await?;
    assert!(!format!("{client:?}").contains("p/a@ss"), "{client:?}");
    let name = leasehold_api::LockName::new("a").unwrap();
    assert!(client.fencing_token(&name).await?.is_some());
    Ok(())
}
