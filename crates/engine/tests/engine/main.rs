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
mod detached;
mod endpoints;
mod held;
mod history;
mod input;
mod jobs;
mod jobs_crashes;
mod json_form;
mod live;
mod patterns;
mod rollups;
mod shared;
mod views;
