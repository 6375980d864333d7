//! Finds the endpoint of a request by the segments of its path; a fixed segment precedes one that may be any. A
//! change of the declarations replaces the whole table of routes.

use std::{collections::HashMap, sync::Arc};

use swiftwater_lang::ddl::{EndpointMethod, Segment, endpoint::is_reserved_path};

use super::Endpoint;
use swiftwater_runtime::lock_order::OrderedRwLock;

/// All active endpoints. Readers use the present table; a change replaces it.
#[derive(Debug, Default)]
pub(crate) struct Endpoints(OrderedRwLock<Arc<Table>>);

#[derive(Debug, Default)]
struct Table {
    all: Vec<Arc<Endpoint>>,
    root: Node,
}

/// The continuations of a segment.
#[derive(Debug, Default)]
struct Node {
    literals: HashMap<Box<str>, Node>,
    parameter: Option<Box<Node>>,
    get: Option<Arc<Endpoint>>,
    post: Option<Arc<Endpoint>>,
}

/// The result of routing a request.
#[derive(Debug, Clone)]
pub enum EndpointRoute {
    /// The endpoint.
    Endpoint(Arc<Endpoint>),
    /// The path has endpoints, but none of the method: these are its methods.
    Methods(&'static str),
    /// No endpoint has the path.
    None,
}

impl Endpoints {
    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.0.read())
    }

    /// All, in the order of their paths.
    pub(crate) fn all(&self) -> Vec<Arc<Endpoint>> {
        self.table().all.clone()
    }

    /// Replaces the endpoints.
    pub(crate) fn set(&self, all: Vec<Arc<Endpoint>>) {
        let table = Arc::new(Table::new(all));
        *self.0.write() = table;
    }

    /// The endpoint for a request of this method and path, without its query string. HEAD is GET.
    pub(crate) fn find(&self, method: &str, path: &str) -> EndpointRoute {
        if is_reserved_path(path) {
            return EndpointRoute::None;
        }
        let table = self.0.read();
        let trimmed = path.strip_prefix('/').unwrap_or(path);
        let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
        let Some(node) = table.root.find(trimmed) else { return EndpointRoute::None };
        let endpoint = match method {
            "GET" | "HEAD" => &node.get,
            "POST" => &node.post,
            _ => &None,
        };
        match (endpoint, &node.get, &node.post) {
            (Some(endpoint), ..) => EndpointRoute::Endpoint(Arc::clone(endpoint)),
            (None, Some(_), Some(_)) => EndpointRoute::Methods("GET, HEAD, POST"),
            (None, Some(_), None) => EndpointRoute::Methods("GET, HEAD"),
            (None, None, _) => EndpointRoute::Methods("POST"),
        }
    }
}

impl Table {
    fn new(all: Vec<Arc<Endpoint>>) -> Table {
        let mut root = Node::default();
        for endpoint in &all {
            let mut node = &mut root;
            for segment in endpoint.create.name.path.segments() {
                node = match segment {
                    Segment::Literal(text) => node.literals.entry(text.clone()).or_default(),
                    Segment::Parameter(_) => node.parameter.get_or_insert_default(),
                };
            }
            match endpoint.create.name.method {
                EndpointMethod::Get => node.get = Some(Arc::clone(endpoint)),
                EndpointMethod::Post => node.post = Some(Arc::clone(endpoint)),
            }
        }
        Table { all, root }
    }
}

impl Node {
    /// The node of a path, which has an endpoint. Visits at most all nodes.
    fn find(&self, path: &str) -> Option<&Node> {
        let (segment, rest) = match path.split_once('/') {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (path, None),
        };
        let go_on = |node: &'_ Node| -> bool { rest.is_some() || node.get.is_some() || node.post.is_some() };
        let within = |node| match rest {
            Some(rest) => Node::find(node, rest),
            None => Some(node),
        };
        let literal = self.literals.get(segment).filter(|node| go_on(node)).and_then(within);
        let any = || {
            let parameter = self.parameter.as_deref().filter(|node| !segment.is_empty() && go_on(node));
            parameter.and_then(within)
        };
        literal.or_else(any)
    }
}
