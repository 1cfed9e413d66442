//! Help, manual pages, completions.

use leasehold_conformance::{Verdict, ensure};

use crate::common::{bare, told};

const VERBS: [&str; 7] = ["run", "status", "list", "evict", "check", "completions", "man"];

pub(crate) async fn help_of_each_verb_shows_an_example() -> Verdict {
    for verb in VERBS {
        let mut command = bare();
        command.args([verb, "--help"]);
        let told = told(command).await;
        ensure!(told.code == Some(0) && told.err.is_empty(), "{told:?}");
        let example = told.out.split("Example:").nth(1).unwrap_or_default();
        ensure!(example.contains(&format!("leasehold {verb}")), "{told:?}");
        let wide = told.out.lines().find(|line| line.chars().count() > 100);
        ensure!(wide.is_none(), "{verb}: {wide:?}");
    }
    Ok(())
}

pub(crate) async fn manual_pages_and_completions_name_every_verb() -> Verdict {
    let folder = tempfile::tempdir()?;
    let mut command = bare();
    command.arg("man").arg(folder.path());
    let man = told(command).await;
    ensure!(man.code == Some(0), "{man:?}");
    for verb in VERBS {
        let page = std::fs::read_to_string(folder.path().join(format!("leasehold-{verb}.1")))?;
        ensure!(page.contains(".SH NAME") && page.contains("Example"), "{page}");
    }
    let pages = std::fs::read_dir(folder.path())?.count();
    ensure!(pages == VERBS.len() + 1, "{pages} pages: something hidden has one");
    for shell in ["bash", "zsh", "fish"] {
        let mut command = bare();
        command.args(["completions", shell]);
        let told = told(command).await;
        ensure!(told.code == Some(0), "{told:?}");
        ensure!(!told.out.contains("supervise"), "{shell} shows what is no verb");
        for verb in VERBS {
            ensure!(told.out.contains(verb), "{shell} does not know {verb}");
        }
    }
    Ok(())
}
