//! The description of a node, by which the nodes of a cluster know each other: the `client.id` of a member of their group.
//!
//! ```text
//! name;roles;address;version        roles := role { '+' role }, none of a node that is draining        address may be empty
//! ```

use std::{collections::BTreeSet, fmt, str::FromStr};

/// A kind of work that a node takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads partitions, and matches their events.
    Work,
    /// Takes queries from clients, and merges their results.
    Serve,
    /// Takes events from clients, and writes them to the topics.
    Receive,
}

/// The roles of a node.
pub type Roles = BTreeSet<Role>;

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Work, Role::Serve, Role::Receive];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Work => "work",
            Role::Serve => "serve",
            Role::Receive => "receive",
        }
    }
}

/// A text names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a role of a node: there are work, serve and receive")]
pub struct NotARole(String);

impl FromStr for Role {
    type Err = NotARole;

    fn from_str(text: &str) -> Result<Role, NotARole> {
        let role = Role::ALL.into_iter().find(|role| role.name() == text);
        role.ok_or_else(|| NotARole(text.to_owned()))
    }
}

/// A node as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDescription {
    /// Its name.
    pub name: String,
    /// The work that it takes; none while it is draining.
    pub roles: Roles,
    /// The address by which clients reach it, if it has told one.
    pub address: Option<String>,
    /// Its release.
    pub version: String,
}

impl NodeDescription {
    /// The node whose description this `client.id` is. Roles of a newer release are left out.
    pub fn of_client_id(text: &str) -> Option<NodeDescription> {
        let mut parts = text.split(';');
        let (name, roles, address, version) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        Some(NodeDescription {
            name: name.to_owned(),
            roles: roles.split('+').filter_map(|role| role.parse().ok()).collect(),
            address: Some(address.to_owned()).filter(|address| !address.is_empty()),
            version: version.to_owned(),
        })
    }

    /// The names of its roles.
    pub fn role_names(&self) -> Vec<&'static str> {
        self.roles.iter().map(|role| role.name()).collect()
    }
}

impl fmt::Display for NodeDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.as_deref().unwrap_or_default();
        write!(f, "{};{};{address};{}", self.name, self.role_names().join("+"), self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_back() {
        for (roles, address) in [
            (Roles::from(Role::ALL), Some("http://10.0.0.5:8080".to_owned())),
            (Roles::from([Role::Serve]), None),
            (Roles::new(), Some("http://[::1]:80".to_owned())),
        ] {
            let node = NodeDescription { name: "a".to_owned(), roles, address, version: "1.2.3".to_owned() };
            assert_eq!(NodeDescription::of_client_id(&node.to_string()), Some(node));
        }
        let newer = NodeDescription::of_client_id("a;work+sql;;2.0.0;more").unwrap();
        assert_eq!(newer.roles, Roles::from([Role::Work]));
        assert_eq!(NodeDescription::of_client_id("rdkafka"), None);
        assert!("Work".parse::<Role>().is_err());
    }
}
