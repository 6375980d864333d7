//! Opens the object store at a location.

use std::{path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use object_store::{
    ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    local::LocalFileSystem,
    path::Path,
    prefix::PrefixStore,
};
use url::Url;

use crate::{
    disk::{Durable, SyncedDirectory},
    error::{Result, StoreError},
    options::StoreOptions,
};

/// A location's object store.
pub(crate) struct OpenedLocation {
    pub(crate) objects: Arc<dyn ObjectStore>,
    /// The directory, if the store is on this machine.
    pub(crate) directory: Option<PathBuf>,
}

/// Opens the object store that the options name. A local directory is made if it is not there.
pub(crate) fn open(options: &StoreOptions) -> Result<OpenedLocation> {
    let refuse =
        |why: String| StoreError::Location { location: options.location.as_str().into(), why: why.into() };
    let url = match Url::parse(&options.location) {
        Ok(url) => url,
        Err(_) => return local(std::path::Path::new(&options.location), &refuse),
    };
    match url.scheme() {
        "file" => {
            let path =
                url.to_file_path().map_err(|()| refuse("it is not a path of this machine".to_owned()))?;
            local(&path, &refuse)
        }
        "s3" | "s3a" => s3(&url, &options.storage, &refuse),
        other => Err(refuse(format!("`{other}` is not a known kind of store"))),
    }
}

fn local(path: &std::path::Path, refuse: &dyn Fn(String) -> StoreError) -> Result<OpenedLocation> {
    std::fs::create_dir_all(path).map_err(|error| refuse(error.to_string()))?;
    let path = path.canonicalize().map_err(|error| refuse(error.to_string()))?;
    let files = LocalFileSystem::new_with_prefix(&path).map_err(|error| refuse(error.to_string()))?;
    let objects = Durable::new(Arc::new(files), Arc::new(SyncedDirectory::new(path.clone())));
    Ok(OpenedLocation { objects: Arc::new(objects), directory: Some(path) })
}

fn s3(
    url: &Url,
    settings: &[(String, String)],
    refuse: &dyn Fn(String) -> StoreError,
) -> Result<OpenedLocation> {
    // The owner of the table tries failed commits again, and shows them in its status: so the client fails early.
    let retry =
        RetryConfig { max_retries: 3, retry_timeout: Duration::from_secs(15), ..RetryConfig::default() };
    let bucket = url.host_str().ok_or_else(|| refuse("it names no bucket".to_owned()))?;
    // The environment variables of S3's tools are the defaults of the options.
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
    for (name, value) in settings {
        let key = AmazonS3ConfigKey::from_str(&name.to_ascii_lowercase())
            .map_err(|_| refuse(format!("`{name}` is not an option of S3")))?;
        if key == AmazonS3ConfigKey::Endpoint {
            // Or the environment's `AWS_ENDPOINT_URL_S3` would win.
            builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, value);
        }
        builder = builder.with_config(key, value);
    }
    let store = builder.build().map_err(|error| refuse(error.to_string()))?;
    let prefix = Path::from_url_path(url.path()).map_err(|error| refuse(error.to_string()))?;
    let objects: Arc<dyn ObjectStore> = match prefix.as_ref().is_empty() {
        true => Arc::new(store),
        false => Arc::new(PrefixStore::new(store, prefix)),
    };
    Ok(OpenedLocation { objects, directory: None })
}
