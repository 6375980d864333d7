//! An engine as its users see it: what goes in, what comes out, by whose clock.

mod alerts;
mod away;
mod backup;
mod bullet_answers;
mod bullet_clock;
mod bullet_rules;
mod changes;
mod crashes;
mod declared;
mod endpoints;
mod held;
mod history;
mod input;
mod jobs;
mod jobs_crashes;
mod joins;
mod json_form;
mod live;
mod over;
mod patterns;
mod receiver;
mod rollups;
mod shared;
mod sinks_of_changes;
mod stream_joins;
mod views;
