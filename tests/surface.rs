//! How much a user has to learn: the facade's public items, counted in its source.

use std::path::Path;

/// Items of the files of `src/`: types and functions that are public to users, and what
/// `lib.rs` exports of the contract.
fn public_items() -> Vec<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut items = Vec::new();
    for file in std::fs::read_dir(src).expect("the crate has a src folder") {
        let text = std::fs::read_to_string(file.expect("it can be read").path());
        for line in text.expect("it is text").lines().map(str::trim_start) {
            let item = ["pub fn ", "pub async fn ", "pub struct ", "pub enum ", "pub trait "]
                .iter()
                .find_map(|keyword| line.strip_prefix(keyword));
            if let Some(item) = item {
                items.push(item.split(['(', '<', ' ']).next().unwrap_or(item).to_owned());
            }
        }
    }
    let exports = include_str!("../src/lib.rs");
    let of_the_contract = exports.split("pub use leasehold_api::{").nth(1).expect("it exports");
    let names = of_the_contract.split('}').next().unwrap_or_default();
    items.extend(names.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned));
    items
}

/// The public async functions of `src/`, each with its docs.
fn async_functions() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut functions = Vec::new();
    for file in std::fs::read_dir(src).expect("the crate has a src folder") {
        let text = std::fs::read_to_string(file.expect("it can be read").path());
        let mut docs = String::new();
        for line in text.expect("it is text").lines().map(str::trim_start) {
            match line {
                doc if doc.starts_with("///") => docs += &format!("{doc}\n"),
                attribute if attribute.starts_with("#[") => {}
                item => {
                    if item.starts_with("pub async fn ") {
                        functions.push((item.to_owned(), docs.clone()));
                    }
                    docs.clear();
                }
            }
        }
    }
    functions
}

#[test]
fn every_public_future_says_what_a_drop_does_and_which_errors_there_are() {
    let functions = async_functions();
    assert!(functions.len() >= 8, "{functions:?}");
    for (function, docs) in functions {
        assert!(docs.contains("# Cancel safety"), "{function}");
        assert!(!function.contains("Result<") || docs.contains("# Errors"), "{function}");
    }
}

#[test]
fn the_facade_has_at_most_60_public_items() {
    let items = public_items();
    for known in ["connect", "Locks", "Guard", "try_acquire", "lost_token", "Token"] {
        assert!(items.iter().any(|item| item == known), "{known} was not counted: {items:?}");
    }
    assert!(items.len() <= 60, "{}: {items:?}", items.len());
}

/// Nothing is published yet, so a link within the repository is a path.
#[test]
fn links_of_a_readme_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for readme in [
        "README.md",
        "backend-memory/README.md",
        "backend-redis/README.md",
        "backend-etcd/README.md",
        "cli/README.md",
        "conformance/README.md",
    ] {
        let at = root.join(readme);
        let text = std::fs::read_to_string(&at).expect("it can be read");
        let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let defined = text.lines().filter_map(|line| Some(line.split_once("]: ")?.1));
        for target in inline.chain(defined) {
            let ours =
                target.contains("github.com/leasehold") || target.contains("docs.rs/leasehold");
            assert!(!ours, "{readme}: {target} is not there yet");
            let is_there = || at.with_file_name(target).exists();
            assert!(target.starts_with("https://") || is_there(), "{readme}: no {target}");
        }
    }
}
