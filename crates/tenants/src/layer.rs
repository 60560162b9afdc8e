//! [`Layer`]: a tower layer that serves every request in the group of its tenant.
//!
//! A server whose handlers share one executor serves the tenant best that sends most. The layer
//! reads the tenant out of a request, creates a group for it on demand, and runs the service's
//! future in that group: weights and limits hold between tenants. There are two kinds of groups,
//! those of this crate and those of `zerolag-runtime`; the layer is the same for both, and
//! [`TenantGroup`] is what it needs of them.
//!
//! ```text
//!                                    +-- no slot, the queue is full, no room ---> shed [4]
//!             tenant, group [1]      |
//!    request -------------------> arrived -- a slot is free ---------------+
//!                                    |                                     v
//!                                    +-- no slot --> queued (FIFO) [2] --> served [3] --> response
//! ```
//!
//! At most `concurrency` requests of a tenant are served at a time \[3\]; others wait in the order
//! of their arrival \[2\], since tasks of a group that share a small quota would all be late. At
//! most `queue` wait; further ones are shed with an estimate of when to retry \[4\], and so are
//! those whose deadline passes \[5\]. A caller that drops the response future leaves the queue, or
//! aborts the request.
//!
//! A group of the tenant's name that exists is its group, with the limit that it has: one that the
//! program has made, or one that tasks of earlier requests still run in. A second one beside it
//! would be a second quota.
//!
//! Groups that had no request for a while are removed when a request of another tenant needs a new
//! group, or by [`Layer::collect`].

use http::header::{HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Request, Response, StatusCode};
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

/// A kind of groups that requests can be served in.
pub trait TenantGroup: Clone + Send + Sync + 'static {
    /// A group that has not been created yet.
    type Builder;
    /// The parameters of a request's task.
    type Task: Clone + Send;
    /// The account of a group.
    type Usage;

    /// Returns the group of this name below this one, if there is one.
    fn existing(&self, name: &str) -> Option<Self>;

    /// Starts building a group below this one.
    fn build(&self, name: String) -> Self::Builder;

    /// Creates a group.
    ///
    /// # Errors
    /// The reason why it cannot be created, as text.
    fn create(builder: Self::Builder) -> Result<Self, String>;

    /// Returns the parameters of a task in this group.
    fn task(&self) -> Self::Task;

    /// Makes a task the more urgent the sooner it has to end, within its group.
    fn within(task: Self::Task, time: Duration) -> Self::Task;

    /// Runs a future in the group of a task. It ends when the result is dropped. A panic of it is a
    /// panic of the result.
    fn serve<F>(task: Self::Task, future: F) -> impl Future<Output = Result<F::Output, ShedReason>> + Send
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    /// Waits.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;

    /// Returns the time since some time in the past.
    fn now(&self) -> Duration;

    /// Returns whether a group that is removed would leave a debt of CPU time.
    fn owes(&self) -> bool;

    /// Returns its usage.
    fn used(&self) -> Self::Usage;
}

/// The longest time after which a client is told to retry.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The reason why a request is not served.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ShedReason {
    /// The queue of its tenant is full.
    Queue,
    /// There are too many tenants with requests.
    Tenants,
    /// The tenant's group, or the task, was refused, with this reason.
    Refused(String),
    /// The deadline of the request has passed, or would have passed before it got a slot.
    Deadline,
    /// The runtime has ended.
    Ended,
}

/// A request that is not served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Shed {
    /// The reason.
    pub reason: ShedReason,
    /// An estimate of when the queue of the tenant is empty: 1 s to 60 s.
    pub retry_after: Duration,
}

impl Shed {
    fn new(reason: ShedReason, retry_after: Duration) -> Self {
        Self { reason, retry_after: retry_after.clamp(Duration::from_secs(1), RETRY_MAX) }
    }

    fn soon(reason: ShedReason) -> Self {
        Self::new(reason, Duration::ZERO)
    }

    /// Returns the response 503 with `Retry-After`, rounded up to seconds.
    #[must_use]
    pub fn to_response<B: Default>(&self) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        let seconds = self.retry_after.as_secs() + u64::from(self.retry_after.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        response
    }
}

/// A tenant with requests, or without for less than the time after which its group is removed.
struct Tenant<G> {
    group: G,
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// The mean time of a request in its slot, in nanoseconds; the last 8 count most.
    mean: AtomicU64,
    /// When a request arrived last, in nanoseconds.
    last: AtomicU64,
}

/// A place in the queue.
struct QueueTicket<G>(Arc<Tenant<G>>);

impl<G> Drop for QueueTicket<G> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<G> Tenant<G> {
    fn wait(self: &Arc<Self>, queue: usize) -> Option<QueueTicket<G>> {
        let waits = (self.waiting.fetch_add(1, Ordering::Relaxed) < queue).then(|| QueueTicket(Arc::clone(self)));
        if waits.is_none() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        waits
    }

    fn note(&self, took: Duration) {
        let (took, mean) = (took.as_nanos() as u64, self.mean.load(Ordering::Relaxed));
        // Two requests that end at the same time can overwrite each other: it is an estimate.
        self.mean.store(if mean == 0 { took } else { mean - mean / 8 + took / 8 }, Ordering::Relaxed);
    }

    fn retry_after(&self, concurrency: usize) -> Duration {
        let ahead = (self.waiting.load(Ordering::Relaxed) + concurrency) as u64;
        Duration::from_nanos(self.mean.load(Ordering::Relaxed).saturating_mul(ahead / concurrency as u64))
    }

    fn last(&self) -> Duration {
        Duration::from_nanos(self.last.load(Ordering::Relaxed))
    }
}

/// Sets the properties of what is to be created, by something.
type Setup<By, T> = Box<dyn Fn(&By, T) -> T + Send + Sync>;

/// Returns how long after its arrival a request has to be answered.
type DeadlineOf<Req> = Box<dyn Fn(&Req) -> Option<Duration> + Send + Sync>;

/// Changes a request that is about to be served in a group.
type Prepare<Req, G> = Box<dyn Fn(&mut Req, &G) + Send + Sync>;

struct Shared<G: TenantGroup, Req, Res, K> {
    parent: G,
    key: Box<dyn Fn(&Req) -> K + Send + Sync>,
    group: Setup<K, G::Builder>,
    task: Setup<Req, G::Task>,
    deadline: Option<DeadlineOf<Req>>,
    prepare: Option<Prepare<Req, G>>,
    shed: Box<dyn Fn(&Shed) -> Res + Send + Sync>,
    limits: Limits,
    tenants: Mutex<Tenants<K, G>>,
}

/// The tenants with a group, by key.
type Tenants<K, G> = BTreeMap<K, Arc<Tenant<G>>>;

#[derive(Clone, Copy, Debug)]
struct Limits {
    concurrency: usize,
    queue: usize,
    tenants: usize,
    idle: Duration,
}

impl<G: TenantGroup, Req, Res, K> Shared<G, Req, Res, K> {
    fn tenants(&self) -> MutexGuard<'_, Tenants<K, G>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<G: TenantGroup, Req, Res, K: Ord + Clone + fmt::Display> Shared<G, Req, Res, K> {
    /// Returns the tenant of a request; creates its group if there is none. \[1\]
    fn tenant(&self, request: &Req) -> Result<Arc<Tenant<G>>, Shed> {
        let key = (self.key)(request);
        let now = self.parent.now();
        let nanos = now.as_nanos() as u64;
        // Groups are removed without the lock.
        let (tenant, _gone) = {
            let mut tenants = self.tenants();
            if let Some(tenant) = tenants.get(&key) {
                tenant.last.store(nanos, Ordering::Relaxed);
                return Ok(Arc::clone(tenant));
            }
            let mut gone = take_idle(&mut tenants, now, self.limits.idle);
            if tenants.len() >= self.limits.tenants {
                gone.extend(take_oldest(&mut tenants));
            }
            if tenants.len() >= self.limits.tenants {
                return Err(Shed::soon(ShedReason::Tenants));
            }
            let group = self.group_of(&key).map_err(|error| Shed::soon(ShedReason::Refused(error)))?;
            let slots = Arc::new(Semaphore::new(self.limits.concurrency));
            let (waiting, mean, last) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(nanos));
            let tenant = Arc::new(Tenant { group, slots, waiting, mean, last });
            tenants.insert(key, Arc::clone(&tenant));
            (tenant, gone)
        };
        Ok(tenant)
    }

    /// Returns the group of a tenant.
    fn group_of(&self, key: &K) -> Result<G, String> {
        let name = key.to_string();
        if let Some(group) = self.parent.existing(&name) {
            return Ok(group);
        }
        // Another layer can create it meanwhile.
        let created = G::create((self.group)(key, self.parent.build(name.clone())));
        created.or_else(|error| self.parent.existing(&name).ok_or(error))
    }
}

/// Every request of a tenant has a reference to it; without requests there is the one of the table.
fn is_idle<G>(tenant: &Arc<Tenant<G>>) -> bool {
    Arc::strong_count(tenant) == 1
}

/// Takes the tenants out that had no request for `idle`, unless their groups owe CPU time: a new
/// group would owe nothing.
fn take_idle<K: Ord + Clone, G: TenantGroup>(
    tenants: &mut Tenants<K, G>,
    now: Duration,
    idle: Duration,
) -> Vec<Arc<Tenant<G>>> {
    let is_over =
        |tenant: &Arc<Tenant<G>>| is_idle(tenant) && now.saturating_sub(tenant.last()) >= idle && !tenant.group.owes();
    tenants.extract_if(.., |_, tenant| is_over(tenant)).map(|(_, tenant)| tenant).collect()
}

/// Takes the idle tenant out that had its last request first.
fn take_oldest<K: Ord + Clone, G>(tenants: &mut Tenants<K, G>) -> Option<Arc<Tenant<G>>> {
    let idle = tenants.iter().filter(|(_, tenant)| is_idle(tenant));
    let (key, _) = idle.min_by_key(|(_, tenant)| tenant.last())?;
    let key = key.clone();
    tenants.remove(&key)
}

/// A tower layer that serves every request in the group of its tenant: see the aliases
/// `GroupLayer` of this crate and of `zerolag-runtime`.
pub struct Layer<G: TenantGroup, Req, Res, K> {
    shared: Arc<Shared<G, Req, Res, K>>,
}

impl<G: TenantGroup, Req, Res, K> Clone for Layer<G, Req, Res, K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<G: TenantGroup, Req, Res, K> fmt::Debug for Layer<G, Req, Res, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupLayer").field("limits", &self.shared.limits).finish_non_exhaustive()
    }
}

impl<G: TenantGroup, Req, B: Default + 'static, K> Layer<G, Req, Response<B>, K> {
    /// Creates a layer for HTTP: `key` returns the tenant of a request. The tenant's group is
    /// created below `parent`, with the key as its name. Requests that are shed get 503 and
    /// `Retry-After`.
    pub fn by(parent: &G, key: impl Fn(&Req) -> K + Send + Sync + 'static) -> Self {
        Self::with_shed(parent, key, Shed::to_response)
    }
}

impl<G: TenantGroup, Req, Res, K> Layer<G, Req, Res, K> {
    /// Creates a layer for any protocol: `shed` makes the response of a request that is not served.
    pub fn with_shed(
        parent: &G,
        key: impl Fn(&Req) -> K + Send + Sync + 'static,
        shed: impl Fn(&Shed) -> Res + Send + Sync + 'static,
    ) -> Self {
        let limits = Limits { concurrency: 64, queue: 256, tenants: 512, idle: Duration::from_secs(60) };
        let shared = Shared {
            parent: parent.clone(),
            key: Box::new(key),
            group: Box::new(|_, group| group),
            task: Box::new(|_, task| task),
            deadline: None,
            prepare: None,
            shed: Box::new(shed),
            limits,
            tenants: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    fn change(mut self, change: impl FnOnce(&mut Shared<G, Req, Res, K>)) -> Self {
        let shared = Arc::get_mut(&mut self.shared);
        change(shared.expect("a layer is configured before it is cloned or used"));
        self
    }

    /// Sets the weight and limits of a tenant's group, when it is created.
    ///
    /// # Panics
    /// If the layer was cloned or used before; so do the following methods.
    #[must_use]
    pub fn group(self, group: impl Fn(&K, G::Builder) -> G::Builder + Send + Sync + 'static) -> Self {
        self.change(|shared| shared.group = Box::new(group))
    }

    /// Sets the parameters of a request's task: a name, a nice value, a priority or a reservation,
    /// for example by a header.
    #[must_use]
    pub fn task(self, task: impl Fn(&Req, G::Task) -> G::Task + Send + Sync + 'static) -> Self {
        self.change(|shared| shared.task = Box::new(task))
    }

    /// Sets how long after its arrival a request has to be answered, if its client says so: see
    /// [`deadline_in`] for headers. Such a request
    ///
    /// * is shed at once if the queue of its tenant is longer than that, by the mean time of a
    ///   request, and when its time has passed: its client is gone by then;
    /// * runs before others of its tenant that have more time, where the groups can keep that
    ///   ([`TenantGroup::within`]): those of `zerolag-runtime` can, by a nice value.
    #[must_use]
    pub fn deadline(self, deadline: impl Fn(&Req) -> Option<Duration> + Send + Sync + 'static) -> Self {
        self.change(|shared| shared.deadline = Some(Box::new(deadline)))
    }

    /// Sets how many requests of a tenant are served at a time, at least 1; the default is 64.
    #[must_use]
    pub fn concurrency(self, requests: usize) -> Self {
        self.change(|shared| shared.limits.concurrency = requests.clamp(1, Semaphore::MAX_PERMITS))
    }

    /// Sets how many further requests of a tenant wait; the default is 256.
    #[must_use]
    pub fn queue(self, requests: usize) -> Self {
        self.change(|shared| shared.limits.queue = requests)
    }

    /// Sets how many tenants have a group at a time; the default is 512. A further tenant replaces
    /// the one that had no request for longest. `zerolag-runtime` refuses more
    /// than its `Builder::groups`.
    #[must_use]
    pub fn tenants(self, tenants: usize) -> Self {
        self.change(|shared| shared.limits.tenants = tenants)
    }

    /// Sets how long a tenant's group is kept after its last request; the default is 60 s. A group
    /// that owes CPU time is kept.
    #[must_use]
    pub fn idle(self, time: Duration) -> Self {
        self.change(|shared| shared.limits.idle = time)
    }
}

impl<G: TenantGroup, Body, Res, K> Layer<G, Request<Body>, Res, K> {
    /// Puts the group of its tenant into the extensions of each request, for extractors (axum:
    /// `Extension<Group>`) and middleware that do not run in the request's task. Code that does has
    /// `Group::current`.
    #[must_use]
    pub fn extension(self) -> Self {
        self.change(|shared| {
            shared.prepare = Some(Box::new(|request, group| {
                request.extensions_mut().insert(group.clone());
            }));
        })
    }
}

impl<G: TenantGroup, Req, Res, K: Ord + Clone> Layer<G, Req, Res, K> {
    /// Removes the groups of tenants that had no request for [`idle`](Self::idle). Returns how many
    /// it removed.
    pub fn collect(&self) -> usize {
        let now = self.shared.parent.now();
        let gone = take_idle(&mut self.shared.tenants(), now, self.shared.limits.idle);
        gone.len()
    }

    /// Returns the usage of the tenants that have a group, by tenant.
    #[must_use]
    pub fn usage(&self) -> Vec<(K, G::Usage)> {
        let tenants = self.shared.tenants();
        tenants.iter().map(|(key, tenant)| (key.clone(), tenant.group.used())).collect()
    }
}

/// Returns the time in a header of a request, in milliseconds: `x-deadline-ms: 250`. `None` if it
/// has no such header, or no number in it.
///
/// ```
/// # use zerolag_tenants::deadline_in;
/// # use std::time::Duration;
/// let request = http::Request::builder().header("x-deadline-ms", "250").body(())?;
/// assert_eq!(deadline_in(request.headers(), "x-deadline-ms"), Some(Duration::from_millis(250)));
/// # Ok::<(), http::Error>(())
/// ```
#[must_use]
pub fn deadline_in(headers: &HeaderMap, name: &str) -> Option<Duration> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok().map(Duration::from_millis)
}

impl<G: TenantGroup, S, Req, Res, K> tower_layer::Layer<S> for Layer<G, Req, Res, K> {
    type Service = GroupService<G, S, Req, Res, K>;

    fn layer(&self, inner: S) -> Self::Service {
        GroupService { inner, shared: Arc::clone(&self.shared) }
    }
}

/// The service of a [`Layer`].
pub struct GroupService<G: TenantGroup, S, Req, Res, K> {
    inner: S,
    shared: Arc<Shared<G, Req, Res, K>>,
}

impl<G: TenantGroup, S: Clone, Req, Res, K> Clone for GroupService<G, S, Req, Res, K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<G: TenantGroup, S, Req, Res, K> fmt::Debug for GroupService<G, S, Req, Res, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupService").field("limits", &self.shared.limits).finish_non_exhaustive()
    }
}

/// The response of a [`GroupService`], in the future. A panic of the inner service is a panic of
/// this future.
pub type GroupFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl<G, S, Req, Res, K> Service<Req> for GroupService<G, S, Req, Res, K>
where
    G: TenantGroup,
    S: Service<Req, Response = Res> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    Req: Send + 'static,
    Res: Send + 'static,
    K: Ord + Clone + fmt::Display + Send + Sync + 'static,
{
    type Response = Res;
    type Error = S::Error;
    type Future = GroupFuture<Res, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        // The one that was asked whether it is ready is called, not its copy.
        let copy = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, copy);
        let shared = Arc::clone(&self.shared);
        let within = shared.deadline.as_ref().and_then(|deadline| deadline(&request));
        match shared.tenant(&request).and_then(|tenant| shared.arrive(tenant, within)) {
            Ok(admission) => Box::pin(async move { shared.serve_within(inner, request, admission, within).await }),
            Err(shed) => Box::pin(ready(Ok((shared.shed)(&shed)))), // [4]
        }
    }
}

/// How a request that is not shed is served: in a slot, or after a wait in the queue.
enum Admission<G> {
    Slot(Arc<Tenant<G>>, OwnedSemaphorePermit),
    Queue(QueueTicket<G>),
}

impl<G: TenantGroup, Req, Res, K> Shared<G, Req, Res, K> {
    fn arrive(&self, tenant: Arc<Tenant<G>>, within: Option<Duration>) -> Result<Admission<G>, Shed> {
        if let Ok(slot) = Arc::clone(&tenant.slots).try_acquire_owned() {
            return Ok(Admission::Slot(tenant, slot));
        }
        let Limits { queue, concurrency, .. } = self.limits;
        let wait = tenant.retry_after(concurrency);
        if within.is_some_and(|within| wait > within) {
            return Err(Shed::new(ShedReason::Deadline, wait));
        }
        let waits = tenant.wait(queue).map(Admission::Queue);
        waits.ok_or_else(|| Shed::new(ShedReason::Queue, tenant.retry_after(concurrency)))
    }

    /// Serves a request until its deadline. \[5\]
    async fn serve_within<S>(
        &self,
        inner: S,
        request: Req,
        admission: Admission<G>,
        within: Option<Duration>,
    ) -> Result<Res, S::Error>
    where
        S: Service<Req, Response = Res> + Send + 'static,
        S::Future: Send,
        S::Error: Send + 'static,
        Req: Send + 'static,
        Res: Send + 'static,
    {
        let Some(within) = within else { return self.serve(inner, request, admission, None).await };
        let mut ends = pin!(self.parent.sleep(within));
        let mut served = pin!(self.serve(inner, request, admission, Some(within)));
        poll_fn(|cx| match served.as_mut().poll(cx) {
            Poll::Pending if ends.as_mut().poll(cx).is_ready() => {
                Poll::Ready(Ok((self.shed)(&Shed::soon(ShedReason::Deadline))))
            }
            served => served,
        })
        .await
    }

    async fn serve<S>(
        &self,
        mut inner: S,
        mut request: Req,
        admission: Admission<G>,
        within: Option<Duration>,
    ) -> Result<Res, S::Error>
    where
        S: Service<Req, Response = Res> + Send + 'static,
        S::Future: Send,
        S::Error: Send + 'static,
        Req: Send + 'static,
        Res: Send + 'static,
    {
        let (tenant, slot) = match admission {
            Admission::Slot(tenant, slot) => (tenant, slot),
            Admission::Queue(waits) => {
                let slot = Arc::clone(&waits.0.slots).acquire_owned().await; // [2]
                (Arc::clone(&waits.0), slot.expect("invariant: the semaphore is never closed"))
            }
        };
        if let Some(prepare) = &self.prepare {
            prepare(&mut request, &tenant.group);
        }
        let task = tenant.group.task();
        let task = within.map_or(task.clone(), |within| G::within(task, within));
        let task = (self.task)(&request, task);
        let began = self.parent.now();
        let served = G::serve(task, async move {
            let _until_the_end = slot;
            inner.call(request).await
        });
        match served.await {
            Ok(response) => {
                tenant.note(self.parent.now().saturating_sub(began));
                response
            }
            Err(reason) => Ok((self.shed)(&Shed::soon(reason))),
        }
    }
}
