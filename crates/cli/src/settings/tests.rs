//! Tests precedence, errors, and the documented file.

use std::{fs, path::PathBuf};

use super::{
    flags::SettingFlags,
    load::{Sources, load},
    print::documented,
    *,
};

/// Loads a file's text, variables and flags.
fn loaded(
    file: &str,
    environment: &[(&str, &str)],
    flags: &[(&'static str, &str)],
) -> Result<Loaded, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("swiftwater.toml");
    fs::write(&path, file).unwrap();
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let sources = Sources {
        file: Some(path),
        file_if_there: None,
        environment: environment.iter().map(text).collect(),
        flags: SettingFlags(flags.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()),
    };
    let place = format!("{}/", directory.path().display());
    load(&sources).map_err(|error| error.to_string().replace(&place, ""))
}

fn faults(file: &str, environment: &[(&str, &str)], flags: &[(&'static str, &str)]) -> Vec<String> {
    let text = loaded(file, environment, flags).unwrap_err();
    text.lines().skip(1).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_documented_file_is_what_the_defaults_are() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/default.toml");
    if std::env::var_os("SWIFTWATER_BLESS").is_some() {
        fs::write(&path, documented()).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(
        text,
        documented(),
        "write config/default.toml anew: SWIFTWATER_BLESS=1 cargo test -p swiftwater-cli"
    );
    let loaded = loaded(&text, &[], &[]).unwrap();
    assert_eq!(loaded.settings, Settings::default());
    assert!(
        loaded.origins.iter().all(|origin| matches!(origin, Origin::File { .. })),
        "every setting stands in it"
    );
}

#[test]
fn every_default_is_allowed() {
    for key in KEYS.iter() {
        let value = (key.get)(&Settings::default());
        assert_eq!(key.check(&value), Ok(()), "{}", key.name);
        let mut settings = Settings::default();
        (key.set)(&mut settings, value);
        assert_eq!(settings, Settings::default(), "{}", key.name);
    }
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let file = "[engine]\ntick_ms = 1\nshards = 1\nqueries_max = 1\n";
    let environment = [("SWIFTWATER_ENGINE__TICK_MS", "2ms"), ("SWIFTWATER_ENGINE__SHARDS", "2")];
    let loaded = loaded(file, &environment, &[("engine.tick_ms", "3ms")]).unwrap();
    let engine = &loaded.settings.engine;
    assert_eq!((engine.tick_ms, engine.shards, engine.queries_max), (3, 2, 1));
    assert_eq!(engine.streams_max, EngineConfig::default().streams_max);
    let origin =
        |name: &str| loaded.origins[KEYS.iter().position(|key| key.name == name).unwrap()].to_string();
    assert_eq!(origin("engine.tick_ms"), "flag --engine.tick-ms");
    assert_eq!(origin("engine.shards"), "environment SWIFTWATER_ENGINE__SHARDS");
    assert!(origin("engine.queries_max").ends_with("swiftwater.toml:4"), "{}", origin("engine.queries_max"));
    assert_eq!(origin("engine.streams_max"), "default");
}

#[test]
fn values_are_text_or_plain_numbers_in_the_named_unit() {
    let file = "[engine]\npending_bytes_max = \"64MiB\"\nbatch_bytes_max = 4096\ntick_ms = \"0.5s\"\n\
        default_stream = \"clicks\"\nslow_reader = \"cut_off\"\n[server]\nlisten = [\"127.0.0.1:1\", \"[::1]:2\"]\n";
    let settings = loaded(file, &[("SWIFTWATER_SERVER__HOSTS_ALLOWED", "a, b:80")], &[]).unwrap().settings;
    let engine = &settings.engine;
    assert_eq!((engine.pending_bytes_max, engine.batch_bytes_max, engine.tick_ms), (64 << 20, 4096, 500));
    assert_eq!(engine.default_stream.as_ref().unwrap().as_str(), "clicks");
    assert_eq!(engine.slow_reader, swiftwater_engine::SlowReader::CutOff);
    assert_eq!(settings.server.listen.len(), 2);
    assert_eq!(settings.server.hosts_allowed, ["a", "b:80"]);
}

#[test]
fn all_faults_are_told_at_once_with_their_places() {
    let file = "[engine]\ntick_ms = \"5 parsecs\"\nshards = 5000\ntick = 1\n\n[enigne]\nx = 1\n\n[log]\nformat = \"xml\"\n";
    let environment = [("SWIFTWATER_ENGINE__SHARD", "1"), ("SWIFTWATER_SERVER", "http://x")];
    let expected = [
        "swiftwater.toml:2: `engine.tick_ms` = \"5 parsecs\": not a duration; write for example `250` (milliseconds), \
         `250ms`, `5s` or `1h 30min`; allowed: 1ms to 1s",
        "swiftwater.toml:3: `engine.shards` = 5000: out of range; allowed: 0 to 1024",
        "swiftwater.toml:4: unknown setting `engine.tick`; did you mean `engine.tick_ms`?",
        "swiftwater.toml:6: unknown section or setting `enigne`; sections are [server], [otlp], [log], [console], [engine], \
         [data], [store], [sql], [search], [views], [joins], [sinks], [endpoints], [jobs], [bullet], [pubsub], [cluster], [syslog]",
        "swiftwater.toml:10: `log.format` = \"xml\": not an allowed word; allowed: \"text\" or \"json\"",
        "environment SWIFTWATER_ENGINE__SHARD: unknown setting `SWIFTWATER_ENGINE__SHARD`; did you mean \
         `SWIFTWATER_ENGINE__SHARDS`?",
        "flag --server.listen: `server.listen` = \"nowhere\": `nowhere` is not an address and a port; write for example \
         `127.0.0.1:8080`, `[::1]:8080` or `localhost:0`",
    ];
    let mut told = faults(file, &environment, &[("server.listen", "nowhere")]);
    let mut expected = expected.map(str::to_owned);
    // A table's order is not the file's; what counts is that all are there.
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
}

#[test]
fn settings_that_do_nothing_are_refused_with_what_they_lack() {
    let unused = |file: &str, flags: &[(&'static str, &str)]| {
        let told = loaded(file, &[], flags).unwrap().all_used().map(drop).map_err(|error| error.to_string());
        told.map_or_else(
            |text| text.lines().skip(1).map(|line| line.trim().to_owned()).collect(),
            |()| Vec::new(),
        )
    };
    let told = unused(
        "[views]\ncache_bytes = \"1MiB\"\n[store]\ncommit_bytes = \"64MiB\"\n",
        &[("sql.threads", "2")],
    );
    assert_eq!(told.len(), 2, "what has its default is not told of: {told:?}");
    assert!(told.contains(
        &"flag --sql.threads: `sql.threads` = 2 has no effect: nothing is stored without a data directory; set \
          `data.dir`, too (--data DIR), or leave it out"
            .to_owned()
    ));
    assert!(
        told.iter().any(|told| told.contains("`views.cache_bytes` = \"1MiB\" has no effect")),
        "{told:?}"
    );
    assert_eq!(unused("[views]\ncache_bytes = \"1MiB\"\n", &[("data.dir", "x")]), [""; 0]);
    for (setting, lacks) in [
        ("[otlp]\ninterval_ms = \"1s\"", "set `otlp.endpoint`, too"),
        ("[syslog]\nstream = \"s\"", "set `syslog.tcp_listen` or `syslog.udp_listen`, too"),
        (
            "[syslog]\ntcp_listen = \"127.0.0.1:1\"\nqueue_bytes_max = \"1MiB\"",
            "set `syslog.udp_listen`, too",
        ),
        ("[engine]\nfast_query = \"drop\"", "set `engine.query_emits_max`, too"),
        ("[engine]\ndetached_noted_ms = \"2s\"", "set `data.dir`, too"),
        ("[data]\ndir = \"x\"\n[store]\noptions = [\"a=b\"]", "`store.location` is a directory"),
    ] {
        let told = unused(setting, &[]);
        assert!(told.len() == 1 && told[0].contains(lacks), "{setting}: {told:?}");
    }
    assert_eq!(unused("[engine]\nfast_query = \"drop\"\nquery_emits_max = 5\n", &[]), [""; 0]);
}

#[test]
fn what_is_not_toml_is_told_with_its_line() {
    let told = faults("[engine]\ntick_ms = \nshards = 1\n", &[], &[]);
    assert!(told[0].starts_with("swiftwater.toml:2: "), "{told:?}");
}

#[test]
fn values_of_another_kind_are_refused() {
    for (line, expected) in [
        ("tick_ms = 1.5", "not a value that a setting can have"),
        ("tick_ms = true", "not a value that a setting can have"),
        ("shards = \"2\"", "not a number"),
        ("shards = -1", "out of range"),
        ("shards = 99999999999999999999", ""),
        ("slow_reader = 1", "not text"),
        ("default_stream = \"no spaces\"", "cannot be a stream's name"),
        ("shards = [1]", "not a list of texts"),
    ] {
        let told = faults(&format!("[engine]\n{line}\n"), &[], &[]);
        assert!(told[0].starts_with("swiftwater.toml:2: ") && told[0].contains(expected), "{line}: {told:?}");
    }
}

#[test]
fn a_named_file_has_to_be_there_and_another_not() {
    let missing = PathBuf::from("no/such/file.toml");
    let sources = Sources { file: Some(missing.clone()), ..Sources::default() };
    assert!(load(&sources).unwrap_err().to_string().contains("no/such/file.toml:1: the file cannot be read"));
    let sources = Sources { file_if_there: Some(missing), ..Sources::default() };
    assert_eq!(load(&sources).unwrap().settings, Settings::default());
}

#[test]
fn what_is_printed_can_be_read_back_and_hides_secrets() {
    let file = "[otlp]\nendpoint = \"http://x:4318\"\nheaders = [\"authorization: Bearer abc\"]\n[engine]\ntick_ms = 20\n";
    let loaded_first = loaded(file, &[], &[]).unwrap();
    assert_eq!(
        loaded_first.settings.server().otlp.unwrap().headers,
        [("authorization".to_owned(), "Bearer abc".to_owned())]
    );
    let printed = loaded_first.toml();
    assert!(!printed.contains("abc"), "{printed}");
    assert!(printed.contains("tick_ms = \"20ms\""), "{printed}");
    let with_user = loaded("[otlp]\nendpoint = \"http://me:pass@x:4318\"\n", &[], &[]).unwrap().toml();
    assert!(with_user.contains("http://(hidden)@x:4318") && !with_user.contains("pass"), "{with_user}");
    let again = loaded(&printed, &[], &[]).unwrap();
    assert_eq!(again.settings.engine, loaded_first.settings.engine);
}

#[cfg(feature = "history")]
#[test]
fn connection_has_a_registry_and_its_identity() {
    let file = "[kafka.main]\nbrokers = \"b:9092\"\nregistry = \"http://r:8081/\"\nregistry_username = \"me\"\n\
                registry_password_file = \"/p\"\n";
    let read = loaded(file, &[("SWIFTWATER_KAFKA__MAIN__SCHEMA_DIR", "dir")], &[]).unwrap();
    let schemas = read.settings.kafka.schemas();
    assert!(schemas["main"].is_registry("http://r:8081") && !schemas["main"].is_registry("http://r:8082"));
    assert_eq!(schemas["main"].schema_dir, Some(PathBuf::from("dir")));
    assert!(read.settings.kafka.toml().contains("registry_password_file = \"/p\"\n"));
    for (line, fault) in [
        (
            "registry = \"http://me:secret@r:8081\"",
            "`kafka.main.registry`: it must not contain a user name or a password: set `registry_username` and \
             `registry_password_file`",
        ),
        ("registry_password = \"secret\"", "secrets are in files: set `registry_password_file`"),
        (
            "registry_ca_file = \"/c\"",
            "`registry_…` settings are for the registry of `registry`, which is not set",
        ),
        (
            "registry = \"http://r\"\nregistry_username = \"me\"",
            "`registry_username` and `registry_password_file` need each other",
        ),
    ] {
        let faults = faults(&format!("[kafka.main]\nbrokers = \"b:9092\"\n{line}\n"), &[], &[]);
        assert!(
            faults.len() == 1 && faults[0].contains(fault) && !faults[0].contains("secret@"),
            "{faults:?}"
        );
    }
}
