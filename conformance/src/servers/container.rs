//! A server in a container, through testcontainers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tempfile::TempDir;
use testcontainers::core::ContainerPort;
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, CopyTargetOptions, GenericImage, ImageExt};

use super::LABEL;
use super::engine::{ENGINE, describe, image_for, on_engine, split};
use super::leash::Leash;
use super::process::find;
use super::recipe::{Place, Recipe};

/// Where its data are inside.
const DATA: &str = "/data";

/// Where its files are inside.
const FILES: &str = "/leasehold";

/// How long a drop waits for the engine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A container, once there is one, and all that is needed to make it.
#[derive(Debug)]
pub(super) struct Container {
    recipe: Arc<dyn Recipe>,
    ports: Vec<u16>,
    image: String,
    /// Its certificates on this machine, if it has any.
    directory: Option<TempDir>,
    /// What its data directory holds when it is made.
    seed: Option<Arc<TempDir>>,
    made: Option<Made>,
}

#[derive(Debug)]
struct Made {
    container: Arc<ContainerAsync<GenericImage>>,
    leash: Option<Leash>,
}

impl Container {
    /// Finds an engine and an image, and makes everything but the container.
    ///
    /// # Errors
    ///
    /// With words for the user if there is no engine or no image.
    pub(super) async fn new(recipe: Arc<dyn Recipe>, ports: Vec<u16>) -> Result<Self, String> {
        let image = image_for(recipe.as_ref()).await?;
        let directory = recipe.certificates().map(|_| {
            let directory = tempfile::Builder::new().prefix("leasehold-tls-").tempdir()?;
            for (name, text) in recipe.files() {
                std::fs::write(directory.path().join(name), text)?;
            }
            std::io::Result::Ok(directory)
        });
        let directory = directory.transpose().map_err(|error| error.to_string())?;
        Ok(Self { recipe, ports, image, directory, seed: None, made: None })
    }

    /// Where its certificates are on this machine.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_ref().map(TempDir::path)
    }

    /// Starts the container, or makes it; its server need not serve yet.
    pub(super) async fn start(&mut self) -> Result<(), String> {
        if let Some(made) = &self.made {
            let container = made.container.clone();
            return on_engine(async move {
                match container.is_running().await {
                    Ok(true) => Ok(()),
                    _ => container.start().await.map_err(describe),
                }
            })
            .await;
        }
        let (name, request) = self.request();
        // Before the container: whatever happens to us from here on, it is removed.
        let leash = remove_at_end(&name, self.directory());
        let container = on_engine(async { request.start().await.map_err(describe) }).await?;
        self.made = Some(Made { container: Arc::new(container), leash });
        Ok(())
    }

    /// Asks it to end and waits until it has.
    pub(super) async fn stop(&self) -> Result<(), String> {
        self.tell(async |container| {
            if is_paused(&container).await? {
                container.unpause().await.map_err(describe)?;
            }
            container.stop_with_timeout(Some(10)).await.map_err(describe)
        })
        .await
    }

    /// Kills it and waits until it is gone.
    pub(super) async fn kill(&self) -> Result<(), String> {
        self.tell(async |container| {
            if !container.is_running().await.map_err(describe)? {
                return Ok(());
            }
            let engine = docker_client_instance().await.map_err(describe)?;
            // SIGKILL is what the engine sends where no signal is named; it waits for the end.
            engine.kill_container(container.id(), None).await.map_err(describe)
        })
        .await
    }

    /// Freezes its processes.
    pub(super) async fn pause(&self) -> Result<(), String> {
        self.tell(async |container| {
            if is_paused(&container).await? {
                return Ok(());
            }
            container.pause().await.map_err(describe)
        })
        .await
    }

    /// Lets them go on.
    pub(super) async fn resume(&self) -> Result<(), String> {
        self.tell(async |container| {
            if !is_paused(&container).await? {
                return Ok(());
            }
            container.unpause().await.map_err(describe)
        })
        .await
    }

    /// Removes it with its data: the next start makes another, on these.
    pub(super) async fn replace(&mut self, data: Option<Arc<TempDir>>) -> Result<(), String> {
        self.seed = data;
        if let Some(made) = self.made.take() {
            on_engine(async move { made.remove() }).await;
        }
        Ok(())
    }

    /// Where its main port is for other containers; `outside` is where it is for this machine.
    pub(super) async fn peer_address(&self, outside: SocketAddr) -> Option<SocketAddr> {
        if self.recipe.on_the_machines_network() {
            return Some(outside);
        }
        let container = self.made.as_ref()?.container.clone();
        let host = on_engine(async move {
            let engine = docker_client_instance().await.ok()?;
            let seen = engine.inspect_container(container.id(), None).await.ok()?;
            // testcontainers asks for the network that it named; this one has none but the default.
            let networks = seen.network_settings?.networks?;
            networks.into_values().find_map(|network| network.ip_address?.parse().ok())
        })
        .await?;
        Some(SocketAddr::new(host, self.recipe.ports()[0]))
    }

    /// Whether it runs, or is paused.
    pub(super) async fn running(&self) -> bool {
        let Some(made) = &self.made else { return false };
        let container = made.container.clone();
        on_engine(async move { container.is_running().await.unwrap_or(false) }).await
    }

    /// What the server printed since the container was made.
    pub(super) async fn log(&self) -> String {
        let Some(made) = &self.made else { return String::new() };
        let container = made.container.clone();
        on_engine(async move {
            let printed = container.stdout_to_vec().await.unwrap_or_default();
            let complained = container.stderr_to_vec().await.unwrap_or_default();
            String::from_utf8_lossy(&[printed, complained].concat()).into_owned()
        })
        .await
    }

    fn request(&self) -> (String, ContainerRequest<GenericImage>) {
        static MADE: AtomicU32 = AtomicU32::new(0);

        let shared = self.recipe.on_the_machines_network();
        let inside = if shared { self.ports.clone() } else { self.recipe.ports() };
        let place = Place {
            bind: if shared { "127.0.0.1" } else { "0.0.0.0" },
            ports: inside.clone(),
            data: DATA.into(),
            files: FILES.into(),
        };
        let (image, tag) = split(&self.image);
        let process = std::process::id();
        let count = MADE.fetch_add(1, Ordering::Relaxed);
        let port = self.ports[0];
        let name = format!("leasehold-{}-{process}-{count}-{port}", self.recipe.kind());
        let run = std::env::var("LEASEHOLD_RUN").unwrap_or_else(|_| process.to_string());
        let command = std::iter::once(self.recipe.program().to_owned());
        let mut request = GenericImage::new(image, tag)
            .with_cmd(command.chain(self.recipe.arguments(&place)))
            .with_container_name(&name)
            .with_label(LABEL, run)
            .with_host_config_modifier(|config| {
                let bindings = config.port_bindings.iter_mut().flat_map(HashMap::values_mut);
                for binding in bindings.flatten().flatten() {
                    binding.host_ip = Some("127.0.0.1".into());
                }
            });
        if shared {
            request = request.with_network("host");
        } else {
            for (outside, inside) in self.ports.iter().zip(inside) {
                request = request.with_mapped_port(*outside, ContainerPort::Tcp(inside));
            }
        }
        for (name, value) in self.recipe.environment() {
            request = request.with_env_var(name, value);
        }
        for (name, text) in self.recipe.files() {
            // The server's user is not root in every image.
            let target = CopyTargetOptions::new(format!("{FILES}/{name}")).with_mode(0o644);
            request = request.with_copy_to(target, text.as_bytes().to_vec());
        }
        if let Some(data) = &self.seed {
            request = request.with_copy_to(DATA, data.path().to_owned());
        }
        (name, request)
    }

    async fn tell<F>(
        &self,
        order: impl FnOnce(Arc<ContainerAsync<GenericImage>>) -> F,
    ) -> Result<(), String>
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        match &self.made {
            Some(made) => on_engine(order(made.container.clone())).await,
            None => Ok(()),
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let Some(made) = self.made.take() else { return };
        let (done, removed) = mpsc::channel();
        ENGINE.spawn(async move {
            made.remove();
            // Nobody listens if the patience ended.
            let _ = done.send(());
        });
        if removed.recv_timeout(PATIENCE).is_err() {
            eprintln!("a container labelled {LABEL} is perhaps left");
        }
    }
}

impl Made {
    /// On the engine's runtime, where testcontainers' own drop may block.
    fn remove(mut self) {
        drop(self.container);
        if let Some(leash) = &mut self.leash {
            leash.let_go();
        }
    }
}

/// A shell that removes the container, and the directory of its certificates, when this process is
/// gone without having done so.
fn remove_at_end(name: &str, directory: Option<&Path>) -> Option<Leash> {
    let docker = find("docker")?;
    let directory = directory.map_or("".as_ref(), Path::as_os_str);
    let script = include_str!("remove.sh");
    Leash::new(script, [docker.as_os_str(), name.as_ref(), directory]).ok()
}

async fn is_paused(container: &ContainerAsync<GenericImage>) -> Result<bool, String> {
    let engine = docker_client_instance().await.map_err(describe)?;
    let seen = engine.inspect_container(container.id(), None).await.map_err(describe)?;
    Ok(seen.state.and_then(|state| state.paused).unwrap_or(false))
}
