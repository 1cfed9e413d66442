//! What a build with a feature compiles, and one without it does not.

#![expect(clippy::unwrap_used, reason = "its helpers are part of the tests")]

use std::collections::BTreeSet;
use std::process::Command;

/// The crates that a build with these features needs, also to be built.
fn tree(features: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges=normal,build", "--prefix=none", "--format={p}"])
        .args(["--package=leasehold", "--no-default-features", "--features", features])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// `prost-build` is what wants `protoc`.
#[test]
fn only_the_feature_etcd_builds_a_grpc_client_and_needs_protoc() {
    let grpc = ["etcd-client", "prost", "prost-build", "tonic", "tonic-build"];
    for features in ["", "memory", "redis", "serde", "memory,redis,serde"] {
        let tree = tree(features);
        assert!(tree.contains("leasehold-api"), "{tree:?}");
        assert!(!grpc.iter().any(|name| tree.contains(*name)), "{features:?} builds {tree:?}");
    }
    let tree = tree("etcd");
    assert!(grpc.iter().all(|name| tree.contains(*name)), "{tree:?}");
    assert!(!tree.contains("redis"), "{tree:?}");
}
