//! What a crate outside this workspace builds when it asks for a feature.

#![expect(clippy::unwrap_used, reason = "its helpers are part of the tests")]

use std::collections::BTreeSet;
use std::process::Command;

/// The crates in the tree that belong to one kind of server or one way only.
fn heavy(features: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges=normal", "--prefix=none", "--format={p}"])
        .args(["--package=leasehold-conformance", "--no-default-features"])
        .args(["--features", features])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    let heavy = ["redis", "testcontainers", "rcgen", "tempfile", "rustix"];
    names.filter(|name| heavy.contains(name)).map(str::to_owned).collect()
}

#[test]
fn each_feature_builds_only_what_it_needs() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert!(!heavy("").contains("redis"));
    assert!(!heavy("").contains("testcontainers"));
    let servers: BTreeSet<String> = set(&["tempfile", "rustix"]);
    for (features, more) in [
        ("servers", None),
        ("containers", Some("testcontainers")),
        ("tls", Some("rcgen")),
        ("etcd", None),
        ("redis", Some("redis")),
    ] {
        let mut expected = servers.clone();
        expected.extend(more.map(str::to_owned));
        assert_eq!(heavy(features), expected, "{features}");
    }
}
