//! A local S3 server, from the Python package `moto`: for tests that are given a Python which has it.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A running server with nothing in it; it ends when this is dropped.
pub struct Moto {
    process: Child,
    python: PathBuf,
    endpoint: String,
}

impl Moto {
    /// Starts one by this Python.
    pub fn start(python: &Path) -> Moto {
        let mut process = Command::new(python)
            .args(["-u", "-m", "moto.server", "-p", "0"])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("Python starts");
        let told = process.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(told).lines().map_while(Result::ok);
        let endpoint = lines
            .find_map(|line| line.split("Running on ").nth(1).map(|url| url.trim().to_owned()))
            .expect("moto says where it listens");
        // Its log must be read, or it would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Moto { process, python: python.to_owned(), endpoint }
    }

    /// Makes a bucket.
    pub fn make_bucket(&self, name: &str) {
        // By a PUT of its name.
        let made = Command::new(&self.python)
            .args(["-c", "import sys, urllib.request as r; r.urlopen(r.Request(sys.argv[1], method='PUT'))"])
            .arg(format!("{}/{name}", self.endpoint))
            .env("NO_PROXY", "127.0.0.1")
            .status()
            .expect("Python starts");
        assert!(made.success(), "a bucket is made");
    }

    /// The options with which an object store uses it, by name.
    pub fn options(&self) -> Vec<(String, String)> {
        let options = [
            ("aws_access_key_id", "test"),
            ("aws_secret_access_key", "test"),
            ("aws_region", "us-east-1"),
            ("aws_endpoint", &self.endpoint),
            ("aws_allow_http", "true"),
        ];
        options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
