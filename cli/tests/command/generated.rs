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
        let example = told.out.split("Examples:").nth(1).unwrap_or_default();
        ensure!(example.contains(&format!("leasehold {verb}")), "{told:?}");
        let wide = told.out.lines().find(|line| line.chars().count() > 100);
        ensure!(wide.is_none(), "{verb}: {wide:?}");
    }
    Ok(())
}

pub(crate) async fn help_is_a_verb_too() -> Verdict {
    for (words, same) in [(&["help"][..], &["--help"][..]), (&["help", "run"], &["run", "--help"])]
    {
        let (mut command, mut other) = (bare(), bare());
        command.args(words);
        other.args(same);
        let (told, other) = (told(command).await, told(other).await);
        ensure!(told.code == Some(0) && told.out == other.out, "{told:?}");
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
        ensure!(page.contains(".SH NAME") && page.contains(".SH EXAMPLES"), "{page}");
        ensure!(!page.contains("EXTRA"), "{page}");
        // What is kept as it is fits into 80 columns, behind an indent of 7.
        let kept = page.split(".nf\n").skip(1).filter_map(|rest| rest.split(".fi").next());
        let text = kept.collect::<String>().replace('\\', "").replace("*(Aq", "'");
        let wide = text.lines().find(|line| line.chars().count() > 73);
        ensure!(wide.is_none(), "{verb}: {wide:?}");
    }
    let page = std::fs::read_to_string(folder.path().join("leasehold-run.1"))?;
    let usage = r"\fBleasehold run\fR [OPTIONS] NAME \-\- COMMAND...";
    ensure!(page.contains(&format!(".SH SYNOPSIS\n{usage}\n")), "{page}");
    for section in ["ENVIRONMENT", "\"EXIT STATUS\"", "EXAMPLES"] {
        ensure!(page.contains(&format!(".SH {section}\n.nf\n")), "no {section} in {page}");
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
