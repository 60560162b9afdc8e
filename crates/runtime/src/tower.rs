//! [`GroupLayer`]: a tower layer that serves every request in the group of its tenant.
//!
//! The layer is that of `zerolag-tenants`: tenants, queues, deadlines and responses are the same on
//! an executor of its own and on tokio's. Here a request is a task of its tenant's group; the
//! thread that calls the service only waits for the result.

use crate::group::{Group, GroupBuilder, Usage};
use crate::spawn::{SpawnError, TaskBuilder};
use crate::state::job::JoinError;
use crate::time::Sleep;
use crate::units::to_std;
use std::future::Future;
use std::panic::resume_unwind;
use std::time::Duration;
use zerolag_model::{Instant, Nice};
use zerolag_tenants::layer::{self, Layer, TenantGroup};
pub use zerolag_tenants::layer::{GroupFuture, Shed, ShedReason, deadline_in};

/// A tower layer that serves every request in the group of its tenant.
///
/// ```
/// # use zerolag_runtime::{Builder, GroupLayer};
/// # use http::{Request, Response};
/// # use tower::{ServiceBuilder, ServiceExt, service_fn};
/// let rt = Builder::new().cpus(2).build()?;
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
/// let response = rt.block_on(service.oneshot(request))?;
/// assert_eq!(response.body(), "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Below axum it is `Router::layer`, or `Router::route_layer`. The body of a response is sent by
/// the server, outside the group: a body that computes while it is sent is not limited.
pub type GroupLayer<Req, Res, K> = Layer<Group, Req, Res, K>;

/// The service of a [`GroupLayer`].
pub type GroupService<S, Req, Res, K> = layer::GroupService<Group, S, Req, Res, K>;

/// Returns the nice value of a request that has to be answered within a time.
fn nice_of(within: Duration) -> Nice {
    let nice = match within.as_millis() {
        0..20 => -15,
        20..100 => -10,
        100..500 => -5,
        500..=10_000 => 0,
        _ => 5,
    };
    Nice::new(nice).expect("it is in range")
}

impl TenantGroup for Group {
    type Builder = GroupBuilder;
    type Task = TaskBuilder;
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

    fn task(&self) -> TaskBuilder {
        Self::task(self)
    }

    /// By its nice value: -15 below 20 ms, -10 below 100 ms, -5 below 500 ms, 5 above 10 s. It gets
    /// no priority and no reservation: a client could pass its tenant's limit by a header.
    fn within(task: TaskBuilder, time: Duration) -> TaskBuilder {
        task.nice(nice_of(time))
    }

    async fn serve<F>(task: TaskBuilder, future: F) -> Result<F::Output, ShedReason>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match task.spawn(future) {
            Ok(task) => match task.abort_on_drop().await {
                Ok(output) => Ok(output),
                Err(JoinError::Panicked(with)) => resume_unwind(with),
                Err(JoinError::Aborted) => Err(ShedReason::Ended),
            },
            Err(SpawnError::Ended) => Err(ShedReason::Ended),
            Err(refused) => Err(ShedReason::Refused(refused.to_string())),
        }
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send {
        Sleep::within(self.engine(), time)
    }

    fn now(&self) -> Duration {
        to_std(self.engine().now().since(Instant::ZERO))
    }

    fn owes(&self) -> bool {
        self.state.owes()
    }

    fn used(&self) -> Usage {
        self.usage()
    }
}
