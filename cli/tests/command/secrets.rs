//! A password is in no output, in no process list, and in no environment but ours.

use std::os::unix::fs::PermissionsExt as _;

use leasehold_conformance::servers::{Etcd, Redis};
use leasehold_conformance::{Verdict, ensure};
use rustix::process::Signal;

use crate::common::{
    Heart, Told, bare, is_ours, leasehold, processes, run, send, shared, supervisor_of, told,
    told_by,
};

const SECRET: &str = "hush-hush";
/// One that a test does show in a process list.
const SHOWN: &str = "open-secret";

pub(crate) async fn no_password_in_any_output_or_process_list() -> Verdict {
    let server = Redis::new().password(SECRET).start().await?;
    shown_nowhere(server.url(), "redis://").await
}

pub(crate) async fn no_password_in_any_output_or_process_list_over_etcd() -> Verdict {
    let server = Etcd::new().root_password(SECRET).start().await?;
    shown_nowhere(server.url(), "etcd://root").await
}

/// `user` is what stands before the password in the URL.
async fn shown_nowhere(url: &str, user: &str) -> Verdict {
    ensure!(url.contains(&format!("{user}:{SECRET}@")), "the test needs a URL with the password");
    let heart = Heart::new();
    let mut command = run(url, &["--ttl", "2s", "guarded"]);
    command.args(heart.beats()).env("LEASEHOLD_LOG", "trace");
    // A pipe that nobody reads would be full before the command runs.
    let log = heart.file("log");
    let child = command.stderr(std::fs::File::create(&log)?).spawn()?;
    heart.has_begun().await?;
    // Of ours: the server's own shows it.
    let of_ours = processes().into_iter().filter(|(pid, arguments)| {
        is_ours(*pid) || arguments.contains(heart.file("beat").to_str().unwrap())
    });
    let of_ours: Vec<_> = of_ours.collect();
    ensure!(of_ours.len() >= 3, "ours are not seen: {of_ours:?}");
    let shown = of_ours.iter().find(|(_, arguments)| arguments.contains(SECRET));
    ensure!(shown.is_none(), "a process list shows {shown:?}");
    let environment = |pid: i32| std::fs::read(format!("/proc/{pid}/environ"));
    let supervisor = environment(supervisor_of(&child).await?.as_raw_pid())?;
    ensure!(!String::from_utf8_lossy(&supervisor).contains(SECRET), "the supervisor has it");
    let mut all = Vec::new();
    for words in [
        &["status", "guarded"][..],
        &["status", "guarded", "--json"],
        &["list"],
        &["check"],
        &["check", "--json"],
        &["run", "--no-wait", "guarded", "--", "true"],
    ] {
        let mut command = leasehold(url);
        command.args(words).env("LEASEHOLD_LOG", "trace");
        all.push(told(command).await);
    }
    send(&child, Signal::TERM);
    send(&child, Signal::KILL);
    all.push(Told { err: std::fs::read_to_string(&log)?, ..told_by(child).await });
    // And where it goes wrong.
    let wrong = url.replace(SECRET, "hush-hush-hush");
    let closed = format!("{user}:{SECRET}@127.0.0.1:1/?connect_timeout=100ms");
    let unreadable = format!("{user}:{SECRET}/@127.0.0.1:1");
    let unknown = format!("{user}:{SECRET}@127.0.0.1:1/?{}=1", "ttll");
    for wrong in [&wrong, &closed, &unreadable, &unknown] {
        let mut command = leasehold(wrong);
        command.args(["run", "--wait", "100ms", "guarded", "--", "true"]);
        command.env("LEASEHOLD_LOG", "trace");
        let told = told(command).await;
        ensure!(matches!(told.code, Some(69 | 78)) && !told.err.is_empty(), "{told:?}");
        all.push(told);
    }
    for told in all {
        let shown = [&told.out, &told.err].into_iter().any(|text| text.contains("hush"));
        ensure!(!shown, "{told:?}");
    }
    Ok(())
}

pub(crate) async fn a_password_on_the_command_line_is_refused() -> Verdict {
    for url in [format!("redis://:{SHOWN}@127.0.0.1:1"), format!("redis://u:{SHOWN}/x@127.0.0.1")] {
        for words in [&["run", "job", "--", "true"][..], &["status", "job"], &["check"]] {
            let mut command = bare();
            command.args([words[0], "--url", &url]).args(&words[1..]);
            let told = told(command).await;
            ensure!(told.code == Some(64), "{told:?}");
            ensure!(
                told.err.contains("LEASEHOLD_URL") && told.err.contains("--config"),
                "{told:?}"
            );
            ensure!(!told.err.contains(SHOWN), "{told:?}");
        }
    }
    Ok(())
}

pub(crate) async fn a_file_with_a_password_that_others_may_read_is_refused() -> Verdict {
    let server = Redis::new().password(SECRET).start().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("leasehold.toml");
    std::fs::write(&file, format!("url = \"{}\"", server.url()))?;
    for (mode, code) in [(0o644, 78), (0o640, 78), (0o602, 78), (0o600, 0), (0o400, 0)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode))?;
        let mut command = bare();
        command.args(["check", "--config", file.to_str().unwrap()]);
        let told = told(command).await;
        ensure!(told.code == Some(code), "{mode:o}: {told:?}");
        ensure!(code == 0 || told.err.contains("chmod 600"), "{told:?}");
        ensure!(!told.err.contains(SECRET), "{told:?}");
    }
    // What can't be read is not quoted.
    std::fs::write(&file, format!("url = \"redis://:{SECRET}@127.0.0.1\" oops"))?;
    let mut command = bare();
    command.args(["check", "--config", file.to_str().unwrap()]);
    let told = told(command).await;
    ensure!(told.code == Some(78) && !told.err.contains(SECRET), "{told:?}");
    Ok(())
}

pub(crate) async fn the_command_does_not_inherit_a_password() -> Verdict {
    let secret = Redis::new().password(SECRET).start().await?;
    let shared = shared().await?;
    let show = ["inherits", "--", "sh", "-c", "echo url=$LEASEHOLD_URL"];
    let told_secret = told(run(secret.url(), &show)).await;
    ensure!(told_secret.out == "url=\n", "{told_secret:?}");
    // What is no secret is passed on, for a `leasehold` in the command.
    let told = told(run(shared.url(), &show)).await;
    ensure!(told.out == format!("url={}\n", shared.url()), "{told:?}");
    Ok(())
}

/// So that a `leasehold` in the command asks the same server, wherever its URL stood.
pub(crate) async fn the_command_gets_the_url_in_use() -> Verdict {
    let secret = Redis::new().password(SECRET).start().await?;
    let shared = shared().await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("leasehold.toml");
    let file = path.to_str().unwrap();
    std::fs::write(&path, format!("url = \"{}\"", shared.url()))?;
    let show = ["same", "--", "sh", "-c", "echo url=$LEASEHOLD_URL"];
    let with = async |words: &[&str]| {
        let words = [words, &show].concat();
        told(run("redis://127.0.0.1:1", &words)).await.out
    };
    for words in [["--url", shared.url()], ["--config", file]] {
        let out = with(&words).await;
        ensure!(out == format!("url={}\n", shared.url()), "{words:?}: {out}");
    }
    // Not that of the environment, which is another server.
    std::fs::write(&path, format!("url = \"{}\"", secret.url()))?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let out = with(&["--config", file]).await;
    ensure!(out == "url=\n", "{out}");
    Ok(())
}
