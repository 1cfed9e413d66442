//! A member of etcd by its JSON gateway: another way in than the gRPC client of the driver.
//!
//! See <https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/>. In its JSON, bytes are base64 and
//! 64-bit numbers are strings.

mod http;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// Why a member did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EtcdError {
    /// It says no.
    #[error("etcd answers {message:?} ({code})")]
    Refused {
        /// gRPC's number of the error.
        code: i64,
        /// Its words.
        message: String,
    },
    /// It does not answer, or not what it should.
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
    credentials: Option<Credentials>,
    token: Mutex<Option<String>>,
}

/// gRPC's number for a token that is missing or has ended.
const UNAUTHENTICATED: i64 = 16;

impl Gateway {
    pub(crate) fn new(address: SocketAddr, credentials: Option<Credentials>) -> Self {
        Self { address, credentials, token: Mutex::default() }
    }

    /// Calls a method like `/v3/kv/range`, as the user where there is one.
    pub(crate) async fn call(
        &self,
        path: &str,
        body: &Value,
        limit: Duration,
    ) -> Result<Value, EtcdError> {
        let Some(credentials) = &self.credentials else {
            return self.post(path, None, body, limit).await;
        };
        let known = self.token().clone();
        if let Some(token) = known {
            match self.post(path, Some(&token), body, limit).await {
                // The token's time is over, or the member has forgotten it.
                Err(EtcdError::Refused { code: UNAUTHENTICATED, .. }) => (),
                // A change of users or roles ends the tokens of before it.
                Err(EtcdError::Refused { message, .. })
                    if message.contains("auth store is old") => {}
                answer => return answer,
            }
        }
        let (user, password) = (&credentials.user, &credentials.password);
        let ask = json!({"name": user, "password": password});
        let token = match self.post("/v3/auth/authenticate", None, &ask, limit).await {
            Ok(answer) => text(&answer["token"]).to_owned(),
            Err(EtcdError::Refused { message, .. }) if message.contains("not enabled") => {
                return self.post(path, None, body, limit).await;
            }
            Err(error) => return Err(error),
        };
        *self.token() = Some(token.clone());
        self.post(path, Some(&token), body, limit).await
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
        let answer = answer.map_err(|error| self.unreachable(error))?;
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

    fn token(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
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

/// A string; nothing where there is none.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// An id or another number, which the gateway writes as a string and leaves out where it is zero.
pub(crate) fn id(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}
