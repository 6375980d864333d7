//! Refuses settings that have no effect in combination with the others, because their author expects one.
//!
//! A setting with its default value is never refused: a file may list all of them.

use super::{Fault, KEYS, Loaded, Origin, Settings, SettingsError};

/// Settings that do nothing where a condition is not met.
struct Need {
    /// Sections, as `data.`, and settings.
    of: &'static [&'static str],
    /// The settings of a section for which it is not needed.
    but: &'static [&'static str],
    is_met: fn(&Settings) -> bool,
    /// The fault, and the hint.
    lacks: &'static str,
}

/// Whether the server is a worker of SQL alone.
fn is_worker(settings: &Settings) -> bool {
    #[cfg(feature = "history")]
    return settings.history.sql_nodes.is_worker;
    #[cfg(not(feature = "history"))]
    {
        let _ = settings;
        false
    }
}

const NEEDS: &[Need] = &[
    #[cfg(feature = "history")]
    Need {
        of: &["sql.worker"],
        but: &[],
        is_met: |settings| !settings.history.sql_nodes.listen.is_empty(),
        lacks: "a worker takes tasks; set `sql.worker_listen`, too",
    },
    #[cfg(feature = "history")]
    Need {
        of: &["sql.worker"],
        but: &[],
        is_met: |settings| settings.data_dir.is_empty() && !settings.history.store_location.is_empty(),
        lacks: "a worker alone reads the tables of another node; set `store.location`, and not `data.dir`",
    },
    Need {
        of: &[
            "data.",
            "store.",
            "sql.",
            "search.",
            "views.",
            "joins.",
            "sinks.",
            "endpoints.",
            "jobs.",
            "engine.detached_durable_max",
            "engine.detached_noted_ms",
        ],
        but: &["data.dir"],
        is_met: |settings| !settings.data_dir.is_empty() || is_worker(settings),
        lacks: "nothing is stored without a data directory; set `data.dir`, too (--data DIR)",
    },
    #[cfg(feature = "history")]
    Need {
        of: &["store.options"],
        but: &[],
        is_met: |settings| settings.history.store_location.contains("://"),
        lacks: "options are for an object store, and `store.location` is a directory; name an object store",
    },
    Need {
        of: &["otlp."],
        but: &["otlp.endpoint"],
        is_met: |settings| !settings.otlp.endpoint.is_empty(),
        lacks: "metrics have no target; set `otlp.endpoint`, too",
    },
    #[cfg(feature = "history")]
    Need {
        of: &["pubsub."],
        but: &["pubsub.query_topic"],
        is_met: |settings| !settings.pubsub.query_topic.is_empty(),
        lacks: "no queries are read; set `pubsub.query_topic`, too",
    },
    #[cfg(feature = "history")]
    Need {
        of: &["pubsub.query_topic"],
        but: &[],
        is_met: |settings| !settings.pubsub.result_topic.is_empty(),
        lacks: "results have no topic; set `pubsub.result_topic`, too",
    },
    #[cfg(feature = "history")]
    Need {
        of: &["cluster."],
        but: &["cluster.name"],
        is_met: |settings| !settings.cluster.name.is_empty(),
        lacks: "this server is no node of a cluster; set `cluster.name`, too",
    },
    #[cfg(feature = "history")]
    Need {
        of: &["cluster.name"],
        but: &[],
        is_met: |settings| !settings.cluster.node_id.is_empty() || !settings.cluster.advertise.is_empty(),
        lacks: "a node has a name of its own; set `cluster.node_id` or `cluster.advertise`, too",
    },
    Need {
        of: &["syslog."],
        but: &["syslog.tcp_listen", "syslog.udp_listen"],
        is_met: |settings| {
            settings.server.syslog.tcp_listen.is_some() || settings.server.syslog.udp_listen.is_some()
        },
        lacks: "syslog is off; set `syslog.tcp_listen` or `syslog.udp_listen`, too",
    },
    Need {
        of: &["syslog.queue_bytes_max"],
        but: &[],
        is_met: |settings| settings.server.syslog.udp_listen.is_some(),
        lacks: "the queue is for datagrams; set `syslog.udp_listen`, too",
    },
    Need {
        of: &["engine.fast_query"],
        but: &[],
        is_met: |settings| settings.engine.query_emits_max > 0,
        lacks: "the number of emits has no limit; set `engine.query_emits_max`, too",
    },
    Need {
        of: &["engine.emits_interval_ms"],
        but: &[],
        is_met: |settings| settings.engine.query_emits_max > 0 || settings.engine.bullet_emits_max > 0,
        lacks: "emits are not counted; set `engine.query_emits_max` or `engine.bullet_emits_max`, too",
    },
];

impl Need {
    fn is_of(&self, name: &str) -> bool {
        let is = |of: &&str| if of.ends_with('.') { name.starts_with(*of) } else { name == *of };
        self.of.iter().any(is) && !self.but.contains(&name)
    }
}

impl Loaded {
    /// The same, if each setting that was set to something of its own does something.
    pub(crate) fn all_used(self) -> Result<Loaded, SettingsError> {
        let (settings, defaults) = (&self.settings, Settings::default());
        let mut faults = Vec::new();
        for (key, origin) in KEYS.iter().zip(&self.origins) {
            let value = (key.get)(settings);
            if *origin == Origin::Default || value == (key.get)(&defaults) {
                continue;
            }
            let unmet = NEEDS.iter().find(|need| need.is_of(key.name) && !(need.is_met)(settings));
            if let Some(need) = unmet {
                let message = format!(
                    "`{}` = {} has no effect: {}, or leave it out",
                    key.name,
                    key.shown(&value),
                    need.lacks
                );
                faults.push(Fault { origin: origin.clone(), message });
            }
        }
        if faults.is_empty() { Ok(self) } else { Err(SettingsError(faults)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_name_sections_and_settings_that_there_are() {
        for name in NEEDS.iter().flat_map(|need| need.of.iter().chain(need.but)) {
            let is = |key: &&super::super::Key| {
                if name.ends_with('.') { key.name.starts_with(*name) } else { key.name == *name }
            };
            assert!(KEYS.iter().any(|key| is(&key)), "{name}");
        }
    }
}
