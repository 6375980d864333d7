//! Tests the messages of the store's errors: the attempt and its cause, each once.

use std::{io, sync::Arc};

use swiftwater_event::causes;
use swiftwater_store::StoreError;

fn error_text(source: object_store::Error) -> String {
    causes(&StoreError::ObjectStore { doing: "putting a file", source: Arc::new(source) })
}

#[test]
fn each_cause_is_told_once() {
    let refused = Box::new(io::Error::other("connection refused"));
    let inner = object_store::Error::Generic { store: "HTTP", source: refused };
    let outer = object_store::Error::Generic { store: "S3", source: Box::new(inner) };
    assert_eq!(
        error_text(outer),
        "the object store failed while putting a file: Generic S3 error: Generic HTTP error: connection refused"
    );
}

#[test]
fn causes_that_no_error_above_says_are_told() {
    #[derive(Debug)]
    struct Full(io::Error);
    impl std::fmt::Display for Full {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a file cannot be written")
        }
    }
    impl std::error::Error for Full {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let full = Full(io::Error::other("the disk is full"));
    let error = object_store::Error::Generic { store: "LocalFileSystem", source: Box::new(full) };
    assert_eq!(
        error_text(error),
        "the object store failed while putting a file: Generic LocalFileSystem error: a file cannot be written: the disk is full"
    );
}
