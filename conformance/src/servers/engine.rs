//! The Docker engine, and the images it has or can get.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use testcontainers::GenericImage;
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncRunner;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::missing::Kind;
use super::recipe::Recipe;

/// How long the engine may take to say that it is there.
const ANSWER: Duration = Duration::from_secs(3);

/// How long a pull may take.
const PULL: Duration = Duration::from_secs(120);

/// Runs everything that talks to the engine: a server may outlive the runtime of the test that
/// started it, and the engine's client would lose its connections with that.
pub(super) static ENGINE: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("leasehold-docker")
        .enable_all()
        .build()
        .expect("the system gives a thread")
});

/// Runs a future there and waits for it; it goes on if the caller is dropped.
pub(super) async fn on_engine<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    ENGINE.spawn(future).await.expect("the harness does not panic")
}

/// The image to use, found once a process for each kind.
pub(super) async fn image_for(recipe: &dyn Recipe) -> Result<String, String> {
    static FOUND: Mutex<Option<HashMap<Kind, Result<String, String>>>> = Mutex::const_new(None);

    let mut found = FOUND.lock().await;
    let found = found.get_or_insert_default();
    if let Some(image) = found.get(&recipe.kind()) {
        return image.clone();
    }
    let (variable, defaults) = recipe.images();
    let named = std::env::var(variable).ok().filter(|name| !name.is_empty());
    let image = on_engine(find_image(named, defaults)).await;
    found.insert(recipe.kind(), image.clone());
    image
}

async fn find_image(
    named: Option<String>,
    defaults: &'static [&'static str],
) -> Result<String, String> {
    // Ports are bound to this machine's loopback, so an engine elsewhere is of no use.
    let elsewhere = std::env::var("DOCKER_HOST").ok().filter(|host| {
        !["unix:", "tcp://127.0.0.1", "tcp://localhost"].iter().any(|ours| host.starts_with(ours))
    });
    if let Some(elsewhere) = elsewhere {
        return Err(format!("the Docker engine {elsewhere} is on another machine"));
    }
    let engine = docker_client_instance().await.map_err(describe)?;
    match timeout(ANSWER, engine.ping()).await {
        Ok(Ok(_)) => (),
        Ok(Err(error)) => return Err(format!("no Docker engine answers: {error}")),
        Err(_) => return Err(format!("the Docker engine did not answer within {ANSWER:?}")),
    }
    let wanted = match &named {
        Some(name) => vec![name.as_str()],
        None => defaults.to_vec(),
    };
    for image in &wanted {
        if engine.inspect_image(image).await.is_ok() {
            return Ok((*image).to_owned());
        }
    }
    let (image, tag) = split(wanted[0]);
    match timeout(PULL, GenericImage::new(image, tag).pull_image()).await {
        Ok(Ok(_)) => Ok(wanted[0].to_owned()),
        Ok(Err(error)) => Err(format!("no image {}: {error}", wanted.join(" or "))),
        Err(_) => Err(format!("the image {} was not pulled within {PULL:?}", wanted[0])),
    }
}

/// An image's name and tag.
pub(super) fn split(image: &str) -> (&str, &str) {
    // A colon before a slash belongs to the registry's port.
    image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).unwrap_or((image, "latest"))
}
/// An error with its sources.
pub(super) fn describe(error: impl std::error::Error) -> String {
    // Both crates show the engine's answer only as a source.
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        words = format!("{words}: {error}");
        source = error.source();
    }
    words
}
