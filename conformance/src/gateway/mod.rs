//! A member of etcd by its JSON gateway: another way in than the gRPC client of the driver.
//!
//! See <https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/>. In its JSON, bytes are base64 and
//! 64-bit numbers are strings.

mod http;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// Why a member did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// It says no.
    #[error("etcd answers {message:?} ({code})")]
    Refused {
        /// gRPC's number of the error.
        code: i64,
        /// Its words.
        message: String,
    },
    /// It does not answer in time.
    #[error("etcd at {address} does not answer within {limit:?}")]
    Silent {
        /// The member that was asked.
        address: SocketAddr,
        /// How long it was waited for.
        limit: Duration,
    },
    /// It is not there, or answers what it should not.
    #[error("etcd at {address}: {why}")]
    Unreachable {
        /// The member that was asked.
        address: SocketAddr,
        /// What happened.
        why: String,
    },
}

/// A user's name and password.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// One member.
#[derive(Debug)]
pub(crate) struct Gateway {
    address: SocketAddr,
    user: Mutex<User>,
    calls: Mutex<BTreeMap<&'static str, u64>>,
}

/// Who calls.
#[derive(Debug, Default)]
struct User {
    credentials: Option<Credentials>,
    token: Option<String>,
}

/// gRPC's number for a token that is missing or has ended.
const UNAUTHENTICATED: i64 = 16;

impl Gateway {
    pub(crate) fn new(address: SocketAddr, credentials: Option<Credentials>) -> Self {
        let user = Mutex::new(User { credentials, token: None });
        Self { address, user, calls: Mutex::default() }
    }

    /// The member that it calls.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often each method (by gRPC's name for it) was called that was answered.
    pub(crate) fn calls(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        lock(&self.calls)
    }

    /// From now on a user has this password.
    pub(crate) fn password_is(&self, user: &str, password: &str) {
        let mut own = lock(&self.user);
        if let Some(credentials) = &mut own.credentials
            && credentials.user == user
        {
            password.clone_into(&mut credentials.password);
        }
    }

    /// Calls a method like `/v3/kv/range`, as the user where there is one.
    pub(crate) async fn call(
        &self,
        path: &str,
        body: &Value,
        limit: Duration,
    ) -> Result<Value, EtcdError> {
        let (credentials, token) = {
            let user = lock(&self.user);
            (user.credentials.clone(), user.token.clone())
        };
        let Some(Credentials { user, password }) = credentials else {
            return self.post(path, None, body, limit).await;
        };
        if let Some(token) = token {
            match self.post(path, Some(&token), body, limit).await {
                // The token's time is over, or the member has forgotten it.
                Err(EtcdError::Refused { code: UNAUTHENTICATED, .. }) => (),
                // A change of users or roles ends the tokens of before it.
                Err(EtcdError::Refused { message, .. })
                    if message.contains("auth store is old") => {}
                answer => return answer,
            }
        }
        let ask = json!({"name": user, "password": password});
        let token = match self.post("/v3/auth/authenticate", None, &ask, limit).await {
            Ok(answer) => text(&answer["token"]).to_owned(),
            Err(EtcdError::Refused { message, .. }) if message.contains("not enabled") => {
                return self.post(path, None, body, limit).await;
            }
            Err(error) => return Err(error),
        };
        lock(&self.user).token = Some(token.clone());
        self.post(path, Some(&token), body, limit).await
    }

    /// Reads a page like `/metrics`.
    pub(crate) async fn page(&self, path: &str, limit: Duration) -> Result<String, EtcdError> {
        let answer = http::ask(self.address, "GET", path, &[], "", limit).await;
        let answer = answer.map_err(|error| self.failed(&error, limit))?;
        if answer.status != 200 {
            return Err(self.unreachable(format!("{path} gives status {}", answer.status)));
        }
        Ok(answer.body)
    }

    async fn post(
        &self,
        path: &str,
        token: Option<&str>,
        body: &Value,
        limit: Duration,
    ) -> Result<Value, EtcdError> {
        let headers: Vec<_> = token.map(|token| ("Authorization", token)).into_iter().collect();
        let body = body.to_string();
        let answer = http::ask(self.address, "POST", path, &headers, &body, limit).await;
        let answer = answer.map_err(|error| self.failed(&error, limit))?;
        *self.calls().entry(method(path)).or_default() += 1;
        let value: Value = serde_json::from_str(&answer.body)
            .map_err(|_| self.unreachable(format!("{path} gives {:?}", answer.body)))?;
        if answer.status == 200 && value.get("error").is_none() {
            return Ok(value);
        }
        // A stream's error stands inside; 3.6 has no `error` beside `message` any more.
        let error = value.get("error").filter(|error| error.is_object()).unwrap_or(&value);
        let code = error.get("code").or(error.get("grpc_code")).and_then(Value::as_i64);
        let message = error.get("message").or(error.get("error")).map_or("", text);
        Err(EtcdError::Refused { code: code.unwrap_or(2), message: message.to_owned() })
    }

    fn failed(&self, error: &io::Error, limit: Duration) -> EtcdError {
        match error.kind() {
            io::ErrorKind::TimedOut => EtcdError::Silent { address: self.address, limit },
            _ => self.unreachable(error),
        }
    }

    fn unreachable(&self, why: impl fmt::Display) -> EtcdError {
        EtcdError::Unreachable { address: self.address, why: why.to_string() }
    }
}

impl Credentials {
    /// Those in a URL, whatever follows its first host.
    pub(crate) fn of_url(url: &str) -> Option<Self> {
        let (_, rest) = url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let (ours, _) = authority.rsplit_once('@')?;
        let (user, password) = ours.split_once(':')?;
        let decode = |text| Some(percent_decode_str(text).decode_utf8().ok()?.into_owned());
        Some(Self { user: decode(user)?, password: decode(password)? })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is half changed under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// gRPC's name of a method, as the server counts it.
fn method(path: &str) -> &'static str {
    match path.trim_start_matches("/v3/") {
        "auth/authenticate" => "Authenticate",
        "auth/disable" => "AuthDisable",
        "auth/enable" => "AuthEnable",
        "auth/role/add" => "RoleAdd",
        "auth/role/grant" => "RoleGrantPermission",
        "auth/role/revoke" => "RoleRevokePermission",
        "auth/user/add" => "UserAdd",
        "auth/user/changepw" => "UserChangePassword",
        "auth/user/delete" => "UserDelete",
        "auth/user/grant" => "UserGrantRole",
        "auth/user/revoke" => "UserRevokeRole",
        "cluster/member/list" => "MemberList",
        "kv/compaction" => "Compact",
        "kv/deleterange" => "DeleteRange",
        "kv/put" => "Put",
        "kv/range" => "Range",
        "kv/txn" => "Txn",
        "lease/grant" => "LeaseGrant",
        "lease/keepalive" => "LeaseKeepAlive",
        "lease/leases" => "LeaseLeases",
        "lease/revoke" => "LeaseRevoke",
        "lease/timetolive" => "LeaseTimeToLive",
        "maintenance/alarm" => "Alarm",
        "maintenance/defragment" => "Defragment",
        "maintenance/status" => "Status",
        "maintenance/transfer-leadership" => "MoveLeader",
        _ => "other",
    }
}

/// A string; nothing where there is none.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// An id or another number that is not negative; the gateway writes it as a string, and leaves it
/// out where it is zero.
pub(crate) fn id(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}
