//! The scenarios, one file each, and the code that some of them share.

mod article_persist;
mod article_sql;
mod bullet;
mod bullet_1_latency;
mod bullet_2_find;
mod bullet_3_raw;
mod bullet_4_raw;
mod bullet_5_bigdata;
mod bullet_6_data;
mod bullet_7_queries;
mod home_persist;
mod home_sql;
mod kept;
mod simultaneous;
mod swipes;
mod swipes_commit;
mod swipes_fresh;
mod swipes_get;
mod swipes_mixed;
mod swipes_post;
mod swipes_shards;
mod telecom;
mod telecom_aggregate;
mod telecom_flatten;
mod telecom_flow;
mod telecom_workers;

pub(super) use self::bullet::{collect, submit_detached};
use super::scenario::Scenario;

/// All of them, in the order in which they run.
pub(super) const ALL: &[&Scenario] = &[
    &bullet_1_latency::SCENARIO,
    &bullet_2_find::SCENARIO,
    &bullet_3_raw::SCENARIO,
    &bullet_4_raw::SCENARIO,
    &bullet_5_bigdata::SCENARIO,
    &bullet_6_data::SCENARIO,
    &bullet_7_queries::SCENARIO,
    &telecom_flatten::SCENARIO,
    &telecom_aggregate::SCENARIO,
    &telecom_flow::SCENARIO,
    &telecom_workers::SCENARIO,
    &swipes_post::SCENARIO,
    &swipes_commit::SCENARIO,
    &swipes_shards::SCENARIO,
    &swipes_mixed::SCENARIO,
    &swipes_get::SCENARIO,
    &swipes_fresh::SCENARIO,
    &home_persist::SCENARIO,
    &article_persist::SCENARIO,
    &home_sql::SCENARIO,
    &article_sql::SCENARIO,
];
