//! The objects of the catalog as they run, by kind: their statements, tasks, state and status.

pub(crate) mod alerts;
pub(crate) mod durable_query;
pub(crate) mod endpoints;
pub(crate) mod jobs;
pub(crate) mod lookup_join;
pub(crate) mod sinks;
pub(crate) mod stream_joins;
pub(crate) mod views;

use swiftwater_lang::ddl::Ddl;

use crate::{
    EngineError,
    ddl::{AsWritten, Context, carry_out},
    durable::stream_ddl::DropStream,
};

/// Carries out a statement; answers whether it changed anything. A new kind of object adds its statements here.
pub(crate) async fn execute(context: Context<'_>, ddl: &Ddl) -> Result<bool, EngineError> {
    match ddl {
        Ddl::CreateStream(create) => carry_out(context, create, ddl).await,
        Ddl::AlterStream(alter) => carry_out(context, alter, ddl).await,
        Ddl::DropStream { name, .. } => carry_out(context, &AsWritten(DropStream(name)), ddl).await,
        Ddl::CreateView(create) => carry_out(context, create, ddl).await,
        Ddl::DropView { name, .. } => carry_out(context, &AsWritten(views::DropView(name)), ddl).await,
        Ddl::CreateAlert(create) => carry_out(context, create, ddl).await,
        Ddl::DropAlert { name, .. } => carry_out(context, &AsWritten(alerts::DropAlert(name)), ddl).await,
        Ddl::CreateSink(create) => carry_out(context, create, ddl).await,
        Ddl::DropSink { name, .. } => carry_out(context, &sinks::DropSink(name), ddl).await,
        Ddl::CreateJoin(create) => carry_out(context, create, ddl).await,
        Ddl::DropJoin { name, .. } => carry_out(context, &AsWritten(stream_joins::DropJoin(name)), ddl).await,
        Ddl::CreateJob(create) => carry_out(context, create, ddl).await,
        Ddl::AlterJob { name, .. } => carry_out(context, &AsWritten(jobs::AlterJob(name)), ddl).await,
        Ddl::DropJob { name, .. } => carry_out(context, &jobs::DropJob(name), ddl).await,
        Ddl::CreateEndpoint(create) => carry_out(context, create, ddl).await,
        Ddl::DropEndpoint { .. } => carry_out(context, &AsWritten(endpoints::DropEndpoint), ddl).await,
        // They change nothing.
        Ddl::RunJob { .. } | Ddl::Show(_) | Ddl::Describe { .. } | Ddl::DescribeEndpoint { .. } => Ok(false),
    }
}
