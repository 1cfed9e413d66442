//! URLs with a list of hosts.

use std::borrow::Cow;

/// A URL that names several hosts with ports, as every URL parser takes it: the colons and brackets
/// in the list are percent-encoded. Any other text is answered as it is.
///
/// [`connect`](crate::connect) does this by itself. It is for who parses such a URL for reasons of
/// their own.
///
/// # Examples
///
/// ```
/// let url = leasehold::encode_hosts("etcd://user:secret@a:2379,b:2379/?prefix=shop");
/// assert_eq!(url, "etcd://user:secret@a%3A2379,b%3A2379/?prefix=shop");
/// assert_eq!(leasehold::encode_hosts("redis://a:6379"), "redis://a:6379");
/// ```
#[must_use]
pub fn encode_hosts(url: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = url.split_once("://") else { return url.into() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, authority),
    };
    if !hosts.contains(',') {
        return url.into();
    }
    let hosts = hosts.replace(':', "%3A").replace('[', "%5B").replace(']', "%5D");
    match user {
        Some(user) => format!("{scheme}://{user}@{hosts}{behind}").into(),
        None => format!("{scheme}://{hosts}{behind}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::encode_hosts;
    use url::Url;

    #[test]
    fn a_list_of_hosts_is_a_url_and_nothing_else_is_touched() {
        for (url, encoded) in [
            ("etcd://a:1,[::1]:2", "etcd://a%3A1,%5B%3A%3A1%5D%3A2"),
            ("etcd://u:p@a,b:1?x=a:1,b", "etcd://u:p@a,b%3A1?x=a:1,b"),
        ] {
            let ours = encode_hosts(url);
            assert_eq!(ours, encoded);
            assert!(Url::parse(&ours).is_ok(), "{ours}");
        }
        for url in
            ["", "a:1,b:2", "redis://h:1", "redis://:a,b@h:1/", "memory:a,b", "etcd://[::1]:2"]
        {
            assert_eq!(encode_hosts(url), url);
        }
    }
}
