//! A service that is written for groups on tokio runs on this executor after a change of one line:
//! the same source, with `zerolag_tenants` and with `zerolag_runtime` under the name `tenants`.

mod thin {
    use zerolag_tenants as tenants;
    include!("moved/service.rs");
}

mod full {
    use zerolag_runtime as tenants;
    include!("moved/service.rs");
}

#[test]
fn one_line_moves_a_service() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let (thin, full) = (thin::serve(&tokio), full::serve(&tokio));
    assert_eq!(thin.0, ["FROM GOLD in /gold", "FROM FREE in /free"]);
    assert_eq!(full.0, thin.0);
    for used in [&thin.1, &full.1] {
        assert!(["/", "/gold", "/free"].iter().all(|path| used.iter().any(|used| used == path)), "{used:?}");
    }
}
