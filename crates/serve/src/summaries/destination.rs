//! Destination of the summaries: a folder or an object store.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt, ObjectStoreScheme, parse_url_opts};
use tokio::runtime::{Builder, Runtime};
use vmnoise_export::{Readers, place};

use super::queue::Parcel;
use crate::confined::takes_files;
use crate::tls;

/// Time limit for one delivery to a store. It covers all attempts of the store's client.
const PATIENCE: Duration = Duration::from_secs(60);
/// Prefixes of the environment variables for the three kinds of stores.
const VARIABLES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

#[derive(Debug)]
pub(crate) enum Destination {
    Folder(PathBuf),
    Store {
        store: Box<dyn ObjectStore>,
        prefix: StorePath,
        runtime: Runtime,
    },
}

impl Destination {
    /// Returns the destination that `--summaries` names: the URL of a store, or a folder. Creates
    /// the folder if it is missing. Call this function before rights are dropped.
    ///
    /// # Errors
    /// If `named` is neither a valid URL nor a usable folder, or the environment is invalid.
    pub(crate) fn of(named: &str) -> Result<Destination> {
        if named.contains("://") {
            return Destination::store(named).with_context(|| format!("--summaries {named}"));
        }
        let folder = PathBuf::from(named);
        std::fs::create_dir_all(&folder)
            .and_then(|()| folder.canonicalize())
            .map(Destination::Folder)
            .with_context(|| format!("--summaries {named}: making the folder"))
    }

    fn store(named: &str) -> Result<Destination> {
        let url = named.parse().context("not a URL")?;
        use ObjectStoreScheme::{AmazonS3, GoogleCloudStorage, MicrosoftAzure};
        match ObjectStoreScheme::parse(&url) {
            Ok((AmazonS3 | GoogleCloudStorage | MicrosoftAzure, _)) => {}
            _ => bail!("name a folder, or s3://BUCKET/…, gs://BUCKET/… or az://CONTAINER/…"),
        }
        tls::choose_provider();
        let known = |name: &str| VARIABLES.iter().any(|begin| name.starts_with(begin));
        let of_environment = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| known(name));
        // With random addresses, the client would look up host names by the C library.
        let own = [("randomize_addresses".to_owned(), "false".to_owned())];
        let (store, prefix) = parse_url_opts(&url, of_environment.chain(own))
            .context("by AWS_…, AZURE_… or GOOGLE_… of the environment")?;
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Destination::Store {
            store,
            prefix,
            runtime: runtime.context("starting its client")?,
        })
    }

    /// Returns the folder; `None` if the destination is a store.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Destination::Folder(folder) => Some(folder),
            Destination::Store { .. } => None,
        }
    }

    /// Returns whether the destination is a store, which is reached over the network.
    pub(crate) fn is_store(&self) -> bool {
        matches!(self, Destination::Store { .. })
    }

    /// Checks that files can be created in the folder after rights were dropped. A store is not
    /// checked. The first summary shows whether the store works, because credentials may allow only
    /// putting.
    ///
    /// # Errors
    /// If no file can be created in the folder.
    pub(crate) fn check(&self) -> Result<()> {
        if let Destination::Folder(folder) = self {
            takes_files(folder)?;
        }
        Ok(())
    }

    /// Delivers one summary to the destination.
    pub(super) fn take(&self, parcel: &Parcel) -> Result<()> {
        match self {
            Destination::Folder(folder) => Ok(place(
                &folder.join(&parcel.place),
                &parcel.bytes,
                Readers::Anyone,
            )?),
            Destination::Store {
                store,
                prefix,
                runtime,
            } => {
                let place = StorePath::parse(parcel.place.to_string_lossy())?;
                let place: StorePath = prefix.parts().chain(place.parts()).collect();
                let put = async {
                    let put = store.put(&place, parcel.bytes.clone().into());
                    tokio::time::timeout(PATIENCE, put).await
                };
                runtime
                    .block_on(put)
                    .with_context(|| format!("no answer within {PATIENCE:?}"))??;
                Ok(())
            }
        }
    }
}
