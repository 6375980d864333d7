//! Describes endpoints: `SHOW ENDPOINTS`, `SHOW CREATE ENDPOINT`, `DESCRIBE ENDPOINT`.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use swiftwater_catalog::ObjectKind;
use swiftwater_lang::ddl::{Ddl, EndpointName, ParameterPlace};
use swiftwater_sql::SqlError;

use super::Endpoint;
use crate::{
    EngineError,
    answer::{table, texts},
    durable::history::History,
    error::sql::from_engine,
};

impl History {
    /// An endpoint at work.
    pub(crate) fn endpoint(&self, name: &EndpointName) -> Result<Arc<Endpoint>, EngineError> {
        let id = self.with_catalog(|catalog| catalog.endpoints().get(name).map(|entry| entry.id))?;
        let all = self.objects.endpoints.all();
        let found = all.into_iter().find(|endpoint| endpoint.id == id);
        found.ok_or_else(|| EngineError::not_found(ObjectKind::Endpoint, name.to_string()))
    }

    pub(crate) fn show_endpoints(&self) -> RecordBatch {
        let all = self.objects.endpoints.all();
        let some = |of: fn(&Endpoint) -> Option<String>| -> ArrayRef {
            Arc::new(all.iter().map(|endpoint| of(endpoint)).collect::<StringArray>())
        };
        let created = all.iter().map(|endpoint| endpoint.created);
        let requests = all.iter().map(|endpoint| endpoint.counts.classes().iter().sum::<u64>() as i64);
        let paths: Vec<String> = all.iter().map(|endpoint| endpoint.create.name.path.to_string()).collect();
        table([
            ("method", texts(all.iter().map(|endpoint| endpoint.create.name.method.text()))),
            ("path", texts(paths.iter().map(String::as_str))),
            ("stream", some(|endpoint| endpoint.create.stream().map(ToString::to_string))),
            ("view", some(|endpoint| endpoint.create.view().map(str::to_owned))),
            ("created", Arc::new(TimestampMillisecondArray::from_iter_values(created).with_timezone("UTC"))),
            ("requests", Arc::new(Int64Array::from_iter_values(requests))),
            ("failing", some(|endpoint| endpoint.broken().map(str::to_owned))),
        ])
    }

    pub(crate) fn show_create_endpoint(&self, name: &EndpointName) -> Result<RecordBatch, SqlError> {
        let endpoint = self.endpoint(name).map_err(from_engine)?;
        let text = Ddl::CreateEndpoint(endpoint.create.clone()).to_string();
        Ok(table([("endpoint", texts([&*endpoint.create.name.to_string()])), ("statement", texts([&*text]))]))
    }

    pub(crate) fn describe_endpoint(&self, name: &EndpointName) -> Result<RecordBatch, SqlError> {
        let endpoint = self.endpoint(name).map_err(from_engine)?;
        let parameters = &endpoint.create.parameters;
        let place = |place: &ParameterPlace| match place {
            ParameterPlace::Path => "path",
            ParameterPlace::Query(_) => "query",
            ParameterPlace::Body(_) => "body",
        };
        let types: Vec<String> = parameters.iter().map(|parameter| parameter.ty.to_string()).collect();
        let defaults = parameters.iter().map(|parameter| parameter.default.as_ref().map(ToString::to_string));
        let checks: Vec<String> = parameters
            .iter()
            .map(|parameter| parameter.checks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            .collect();
        Ok(table([
            ("parameter", texts(parameters.iter().map(|parameter| &*parameter.name))),
            ("place", texts(parameters.iter().map(|parameter| place(&parameter.place)))),
            ("type", texts(types.iter().map(String::as_str))),
            ("nullable", {
                let nullable = parameters
                    .iter()
                    .map(|parameter| Some(!parameter.not_null && parameter.place != ParameterPlace::Path));
                Arc::new(nullable.collect::<BooleanArray>())
            }),
            ("default", Arc::new(defaults.collect::<StringArray>())),
            ("checks", texts(checks.iter().map(String::as_str))),
        ]))
    }
}
