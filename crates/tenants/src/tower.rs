//! [`GroupLayer`]: requests in the groups of their tenants, on the executor that polls them.

use crate::group::{Group, GroupBuilder, Usage};
use crate::layer::{GroupService as Service, Layer, ShedReason, TenantGroup};
use crate::task::JoinError;
use std::future::Future;
use std::panic::resume_unwind;
use std::time::Duration;
use zerolag_model::Instant;

/// A tower layer that serves every request in the group of its tenant.
///
/// ```
/// # use zerolag_tenants::{Builder, GroupLayer};
/// # use http::{Request, Response};
/// # use tower::{ServiceBuilder, ServiceExt, service_fn};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let rt = Builder::new().build()?;
/// let tenant = |request: &Request<()>| {
///     let name = request.headers().get("x-tenant").and_then(|name| name.to_str().ok());
///     name.unwrap_or("unknown").to_owned()
/// };
/// let layer = GroupLayer::by(rt.root(), tenant)
///     .group(|name, group| if name == "gold" { group.weight(1000) } else { group.quota(0.2) })
///     .concurrency(16)
///     .queue(64);
/// let service = ServiceBuilder::new().layer(layer).service(service_fn(|_| async {
///     Ok::<_, std::convert::Infallible>(Response::new("hello".to_owned()))
/// }));
/// let request = Request::builder().header("x-tenant", "acme").body(())?;
/// assert_eq!(service.oneshot(request).await?.body(), "hello");
/// # Ok(())
/// # }
/// ```
///
/// Below axum it is `Router::layer`, or `Router::route_layer`. The body of a response is sent by
/// the server, outside the group: a body that computes while it is sent is not limited.
pub type GroupLayer<Req, Res, K> = Layer<Group, Req, Res, K>;

/// The service of a [`GroupLayer`].
pub type GroupService<S, Req, Res, K> = Service<Group, S, Req, Res, K>;

/// Where a request is served: in place, by the task of its connection, or on the second runtime.
#[derive(Clone, Debug)]
pub struct Request {
    group: Group,
    is_beside: bool,
}

impl Request {
    /// Serves it on the second runtime
    /// ([`Builder::second_runtime`](crate::Builder::second_runtime)), as those of groups whose
    /// polls are long. Without one it has no effect.
    #[must_use]
    pub const fn beside(mut self) -> Self {
        self.is_beside = true;
        self
    }
}

impl TenantGroup for Group {
    type Builder = GroupBuilder;
    type Task = Request;
    type Usage = Usage;

    fn existing(&self, name: &str) -> Option<Self> {
        self.child(name)
    }

    fn build(&self, name: String) -> GroupBuilder {
        self.group(name)
    }

    fn create(builder: GroupBuilder) -> Result<Self, String> {
        builder.create().map_err(|error| error.to_string())
    }

    fn task(&self) -> Request {
        Request { group: self.clone(), is_beside: false }
    }

    /// The executor has one queue, so a request is not served before others.
    fn within(task: Request, _: Duration) -> Request {
        task
    }

    async fn serve<F>(task: Request, future: F) -> Result<F::Output, ShedReason>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let Request { group, is_beside } = task;
        let Some(threads) = group.state.shared.beside(&group.state, is_beside) else {
            return Ok(group.wrap(future).await);
        };
        match group.spawn_on(threads, future).abort_on_drop().await {
            Ok(output) => Ok(output),
            Err(JoinError::Panicked(with)) => resume_unwind(with),
            Err(JoinError::Aborted) => Err(ShedReason::Ended),
        }
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(time)
    }

    fn now(&self) -> Duration {
        crate::units::to_std(self.state.shared.clock.now().since(Instant::ZERO))
    }

    fn owes(&self) -> bool {
        self.state.account.owes()
    }

    fn used(&self) -> Usage {
        self.usage()
    }
}
