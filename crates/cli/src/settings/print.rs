//! Prints settings as TOML: the effective values and their origins, and the documented file of defaults.

use swiftwater_server::SettingStatus;

#[cfg(test)]
use super::Key;
use super::{KEYS, Loaded, Settings, load::sections};

impl Loaded {
    /// The settings in effect, for people.
    pub(crate) fn listed(&self) -> Vec<SettingStatus> {
        let defaults = Settings::default();
        let listed = KEYS.iter().zip(&self.origins).map(|(key, origin)| SettingStatus {
            name: key.name,
            value: key.shown(&(key.get)(&self.settings)),
            default: key.toml(&(key.get)(&defaults)),
            origin: origin.to_string(),
            allowed: key.allowed(),
            doc: key.doc,
        });
        listed.collect()
    }

    /// The settings in effect, as a file that can be read back, each line with the source of its value.
    pub(crate) fn toml(&self) -> String {
        let mut out = String::new();
        for section in sections() {
            out.push_str(&format!("{}[{section}]\n", if out.is_empty() { "" } else { "\n" }));
            for (key, origin) in KEYS.iter().zip(&self.origins).filter(|(key, _)| key.section() == section) {
                let setting = format!("{} = {}", key.field(), key.shown(&(key.get)(&self.settings)));
                out.push_str(&format!("{setting:<44} # {origin}\n"));
            }
        }
        #[cfg(feature = "history")]
        out.push_str(&self.settings.kafka.toml());
        out
    }
}

/// The defaults with what they mean: `config/default.toml`.
#[cfg(test)]
pub(super) fn documented() -> String {
    let mut out = String::from(
        "# Every setting of `swiftwater serve`, at its default. Copy the settings that you change into `swiftwater.toml` in\n\
         # the server's working directory, or name a file with --config.\n\
         #\n\
         # A setting is also an environment variable and a flag: `tick_ms` under [engine] is SWIFTWATER_ENGINE__TICK_MS and\n\
         # --engine.tick-ms. Flags override the environment, the environment overrides the file.\n\
         # Sizes and durations are text (\"64MiB\", \"1.5GB\", \"250ms\", \"1h 30min\"), or plain numbers in the unit at the\n\
         # end of the name.\n",
    );
    let defaults = Settings::default();
    for section in sections() {
        out.push_str(&format!("\n[{section}]\n"));
        for key in KEYS.iter().filter(|key| key.section() == section) {
            out.push_str(&comment(key));
            out.push_str(&format!("{} = {}\n", key.field(), key.toml(&(key.get)(&defaults))));
        }
    }
    out.push_str(
        "\n# A connection to Kafka, for streams FROM KAFKA (connection = main): remove the comment signs. Secrets are in files.\n\
         # In the environment: SWIFTWATER_KAFKA__MAIN__BROKERS.\n\
         # [kafka.main]\n\
         # brokers = \"localhost:9092\"\n\
         # security_protocol = \"plaintext\" # or ssl, sasl_plaintext, sasl_ssl\n\
         # sasl_mechanism = \"SCRAM-SHA-512\" # or PLAIN, SCRAM-SHA-256, OAUTHBEARER (with token_file)\n\
         # username = \"swiftwater\"\n\
         # password_file = \"/run/secrets/kafka\"\n\
         # ca_file = \"/etc/ssl/kafka.pem\" # certificate_file and key_file for brokers that require a client's certificate\n\
         # memory_bytes = \"256MiB\" # of all queues of one stream's reader (8 MiB to 4 GiB)\n\
         # properties = { \"broker.address.family\" = \"v4\" } # further properties of librdkafka\n\
         # registry = \"http://localhost:8081\" # the schema registry that the settings below are for\n\
         # registry_username = \"swiftwater\"\n\
         # registry_password_file = \"/run/secrets/registry\"\n\
         # registry_ca_file = \"/etc/ssl/registry.pem\"\n\
         # schema_dir = \"schemas\" # of files with schemas; not set: `schemas` in the data directory\n",
    );
    out
}

#[cfg(test)]
fn comment(key: &Key) -> String {
    let allowed = key.allowed();
    let text = if allowed.is_empty() {
        key.doc.to_owned()
    } else {
        format!("{} ({allowed})", key.doc.trim_end_matches('.'))
    };
    let mut out = String::new();
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > 110 {
            out.push_str(&line);
            out.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
    out
}
