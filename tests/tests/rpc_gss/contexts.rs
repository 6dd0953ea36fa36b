//! Contexts after lost connections, with small windows, and after expiry.

use super::*;

/// An echo service that waits for a permit and counts its calls.
#[derive(Clone)]
struct Gate {
    open: Arc<Semaphore>,
    calls: Arc<AtomicU32>,
}

impl Gate {
    fn new() -> Self {
        Gate { open: Arc::new(Semaphore::new(0)), calls: Arc::default() }
    }

    /// Returns services with a new RPCSEC_GSS server, which has no contexts.
    fn services(&self) -> Services {
        let mut services = Services::new();
        services.add(self.clone());
        services.with_gss(GssServer::new(TestMechanism::new("server")));
        services
    }
}

impl Service for Gate {
    fn program(&self) -> u32 {
        <Echo as Program>::NUMBER
    }

    fn version(&self) -> u32 {
        <Echo as Program>::VERSION
    }

    fn dispatch<'a>(
        &'a self,
        context: &'a CallContext,
        args: Reader<'a>,
        reply: &'a mut Reducer,
    ) -> Pin<Box<dyn Future<Output = Result<(), Reject>> + Send + 'a>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::Relaxed);
            let _permit = self.open.acquire().await;
            Echo.dispatch(context, args, reply).await
        })
    }
}

/// Starts a server without a duplicate-request cache.
async fn serve_uncached(address: SocketAddr, tcp: bool, services: Services) -> (SocketAddr, JoinHandle<()>) {
    let forever = std::future::pending;
    // Retry while the previous server still occupies the address.
    loop {
        if tcp {
            let options = TcpServerOptions { duplicates: None, ..TcpServerOptions::default() };
            if let Ok(server) = TcpServer::bind_with(address, options).await {
                let server = server.services(services);
                let address = server.local_addr().unwrap();
                return (address, tokio::spawn(async move { server.run(forever()).await.unwrap() }));
            }
        } else {
            let options = ServerOptions { duplicates: None, ..ServerOptions::default() };
            if let Ok(server) = Server::bind_with(address, options).await {
                let server = server.services(services);
                let address = server.local_addr().unwrap();
                return (address, tokio::spawn(async move { server.run(forever()).await.unwrap() }));
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Kills the server while a call runs, and restarts the server. The call fails, and the next call uses a new
/// connection.
async fn lost<C: MessageTransport<Echo>>(
    secure: GssClient<C, Echo>,
    gate: Gate,
    server: JoinHandle<()>,
    restart: impl Future<Output = (SocketAddr, JoinHandle<()>)>,
) {
    let restarted = async {
        while gate.calls.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.abort();
        assert!(server.await.unwrap_err().is_cancelled());
        gate.open.add_permits(100);
        restart.await
    };
    let arguments = args(10, 10, 10);
    let both = async { tokio::join!(echo(&secure, &arguments), restarted) };
    let (answer, _) = tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    assert!(matches!(answer, Err(CallError::Transport(TransportError::Closed(_)))), "{answer:?}");
    assert_eq!(gate.calls.load(Ordering::Relaxed), 1, "the call was executed once");
    let next = echo(&secure, &arguments);
    tokio::time::timeout(Duration::from_secs(30), next).await.unwrap().unwrap();
    assert_eq!(gate.calls.load(Ordering::Relaxed), 2);
}

/// If the server still had the context, a retransmitted call would get no reply, time out and close the
/// connection. If the server had lost the context, the call would be executed twice.
#[tokio::test]
async fn a_call_that_was_sent_fails_with_its_connection() {
    for (tcp, loses_contexts) in [(false, false), (false, true), (true, false), (true, true)] {
        let gate = Gate::new();
        let services = gate.services();
        let (address, server) = serve_uncached(([127, 0, 0, 1], 0).into(), tcp, services.clone()).await;
        let after = if loses_contexts { gate.services() } else { services };
        let restart = serve_uncached(address, tcp, after);
        let (alice, service) = (TestMechanism::new("alice"), GssService::Integrity);
        if tcp {
            let client = Client::connect_tcp(address).await.unwrap();
            lost(GssClient::new(client, alice, service), gate, server, restart).await;
        } else {
            let client = Client::connect(address).await.unwrap();
            lost(GssClient::new(client, alice, service), gate, server, restart).await;
        }
    }
}

/// A client retransmits its last token on a new connection, because the reply was lost.
#[tokio::test]
async fn a_retransmitted_token_restarts_the_context() {
    for rounds in [2, 3] {
        let mut services = Services::new();
        services.add(Echo);
        services.with_gss(GssServer::new(TestMechanism { rounds, ..TestMechanism::new("server") }));
        let direct = Direct::new(services.clone());
        let lost = Arc::new(AtomicU32::new(0));
        let calls = lost.clone();
        direct.change_calls(move |call| {
            // The server processes the last token, which completes the context, but the reply is lost.
            if calls.fetch_add(1, Ordering::Relaxed) as usize == rounds - 1 {
                let token = Received::unreduced(call.clone().into());
                let first = services.answer(&token, None);
                let first = std::pin::pin!(first).poll(&mut Context::from_waker(Waker::noop()));
                assert!(matches!(first, Poll::Ready(Some(_))));
            }
            call
        });
        let mechanism = TestMechanism { rounds, ..TestMechanism::new("alice") };
        let client = GssClient::new(direct, mechanism.clone(), GssService::Integrity);
        echo(&client, &args(1, 1, 1)).await.unwrap();
        assert_eq!(mechanism.started.load(Ordering::Relaxed), 2);
        assert_eq!(
            lost.load(Ordering::Relaxed) as usize,
            2 * rounds + 1,
            "the client sends each token twice, and the call once"
        );
    }
}

#[tokio::test]
async fn an_unacknowledged_context_destruction_does_not_delay_calls() {
    let (direct, client, gss) = direct(GssService::Integrity);
    echo(&client, &args(1, 1, 1)).await.unwrap();
    direct.silent.store(true, Ordering::Relaxed);
    let destroying = client.destroy();
    let arguments = args(1, 1, 1);
    let next = async {
        tokio::select! {
            biased;
            ended = destroying => panic!("no reply was sent: {ended:?}"),
            answer = echo(&client, &arguments) => answer.unwrap(),
        }
    };
    tokio::time::timeout(Duration::from_secs(30), next).await.expect("the call is not delayed");
    assert_eq!(gss.contexts(), 2, "the old context, and one for the call");
}

#[tokio::test]
async fn a_call_below_the_window_gets_no_reply() {
    let (services, _, _) = gss_services(GssServerOptions { window: 4, ..GssServerOptions::default() });
    let direct = Direct::new(services);
    let client = GssClient::new(direct.clone(), TestMechanism::new("alice"), GssService::None);
    echo(&client, &args(1, 1, 1)).await.unwrap();
    direct.change_calls(|_| vec![0; 4]);
    assert!(echo(&client, &args(1, 1, 1)).await.is_err());
    *direct.call.lock().unwrap() = None;
    let late = direct.last_call().flatten();
    for _ in 0..4 {
        echo(&client, &args(1, 1, 1)).await.unwrap();
    }
    assert_eq!(direct.send(late).await, None);
}

#[tokio::test]
async fn many_concurrent_calls_with_a_small_window() {
    let (services, gss, _) = gss_services(GssServerOptions { window: 3, ..GssServerOptions::default() });
    let client = Client::connect(over_rdma(services).await).await.unwrap();
    let secure = GssClient::new(client, TestMechanism::new("alice"), GssService::Integrity);
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let secure = secure.clone();
            // Short calls overtake long calls.
            tokio::spawn(async move { echo(&secure, &args(n % 7 * 3000, 10, 10)).await.unwrap() })
        })
        .collect();
    for call in calls {
        tokio::time::timeout(Duration::from_secs(30), call).await.unwrap().unwrap();
    }
    assert_eq!(gss.contexts(), 1);
}

#[tokio::test]
async fn a_context_that_the_server_dropped_is_recreated() {
    let (services, gss, _) =
        gss_services(GssServerOptions { max_contexts: 1, ..GssServerOptions::default() });
    let direct = Direct::new(services);
    let (alice, bob) = (TestMechanism::new("alice"), TestMechanism::new("bob"));
    let first = GssClient::new(direct.clone(), alice.clone(), GssService::Integrity);
    let second = GssClient::new(direct, bob.clone(), GssService::Privacy);
    for _ in 0..3 {
        echo(&first, &args(1, 1, 1)).await.unwrap();
        echo(&second, &args(1, 1, 1)).await.unwrap();
    }
    assert_eq!((alice.started.load(Ordering::Relaxed), bob.started.load(Ordering::Relaxed)), (3, 3));
    assert_eq!(gss.contexts(), 1);
}

#[tokio::test]
async fn calls_fail_while_the_servers_contexts_are_expired() {
    let mechanism = TestMechanism::new("server");
    let gss = GssServer::new(mechanism.clone());
    let mut services = Services::new();
    services.add(Echo);
    services.with_gss(gss);
    let client = GssClient::new(Direct::new(services), TestMechanism::new("alice"), GssService::Integrity);
    echo(&client, &args(1, 1, 1)).await.unwrap();
    mechanism.expired.store(true, Ordering::Relaxed);
    let failed = echo(&client, &args(1, 1, 1)).await;
    // The server also rejects the new context.
    assert!(matches!(failed, Err(CallError::Gss(GssFailure::Refused(_)))), "{failed:?}");
    mechanism.expired.store(false, Ordering::Relaxed);
    echo(&client, &args(1, 1, 1)).await.unwrap();
}

/// A mechanism whose credentials are renewed when it begins a context, as if the user had a new ticket.
struct Renewed(TestMechanism);

impl GssMechanism for Renewed {
    fn begin(&self) -> Result<Box<dyn GssExchange>, GssError> {
        self.0.expired.store(false, Ordering::Relaxed);
        self.0.begin()
    }

    fn explain(&self, refused: GssError) -> GssError {
        GssError { text: Some(format!("{} has no ticket", self.0.name).into()), ..refused }
    }
}

#[tokio::test]
async fn a_client_replaces_its_expired_context() {
    for service in SERVICES {
        let (services, gss, _) = gss_services(GssServerOptions::default());
        let alice = TestMechanism::new("alice");
        let client = GssClient::new(Direct::new(services), Renewed(alice.clone()), service);
        for contexts in [1, 2] {
            echo(&client, &args(1, 1, 1)).await.unwrap();
            assert_eq!(gss.contexts(), contexts);
            alice.expired.store(true, Ordering::Relaxed);
        }
    }
}

#[tokio::test]
async fn a_mechanism_explains_why_a_server_refuses() {
    let (services, _, _) = gss_services(GssServerOptions::default());
    let client =
        GssClient::new(Direct::new(services), Renewed(TestMechanism::new("unknown")), GssService::None);
    let refused = echo(&client, &args(1, 1, 1)).await.unwrap_err();
    assert_eq!(refused.to_string(), "the server refused to create a context: unknown has no ticket");
}

#[tokio::test]
async fn contexts_end_with_their_clients() {
    let (services, gss, _) = gss_services(GssServerOptions::default());
    let address = over_rdma(services).await;
    for service in SERVICES {
        let client = Client::connect(address).await.unwrap();
        let secure = GssClient::new(client, TestMechanism::new("alice"), service);
        echo(&secure, &args(1, 1, 1)).await.unwrap();
        assert_eq!(gss.contexts(), 1);
        secure.destroy().await.unwrap();
        assert_eq!(gss.contexts(), 0);
        echo(&secure, &args(1, 1, 1)).await.unwrap();
        assert_eq!(gss.contexts(), 1);
        drop(secure);
        let destroyed = async {
            while gss.contexts() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), destroyed).await.unwrap();
    }
}
