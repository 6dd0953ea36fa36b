//! The causes of Kerberos errors, and their fixes.

use std::fmt::Display;

use libgssapi::error::Error;
use rpcrdma_runtime::GssError;

type Cause = (&'static str, &'static str);

/// The placeholder for the service's principal in the text of a fix.
const KEY: &str = "SERVICE/HOST";
const NO_TICKET: Cause = ("no ticket", "run `kinit`");
const OLD_TICKET: Cause = ("the ticket has expired", "run `kinit`");
const NO_SERVICE: Cause = (
    "the realm has no principal for this service",
    "use the host name of the server's principal, or create the principal: \
     `kadmin -q 'addprinc -randkey SERVICE/HOST'`",
);
const NO_KDC: Cause = ("no KDC of the realm responds", "check the network, and the realm in krb5.conf");
const CLOCKS: Cause = ("the clocks of the machines differ", "synchronize the clocks");
const NO_KEY: Cause = (
    "the server has no key for this ticket",
    "add the current key to the server's keytab (`kadmin -q 'ktadd SERVICE/HOST'`), and run `kinit`",
);

/// Failures that the client's library reports. The first field is the minor status, a code of libkrb5
/// (`krb5.h`).
const OF_CLIENT: &[(i32, Cause)] = &[
    (-1_765_328_189, NO_TICKET),  // KRB5_FCC_NOFILE
    (-1_765_328_243, NO_TICKET),  // KRB5_CC_NOTFOUND
    (-1_765_328_352, OLD_TICKET), // KRB5KRB_AP_ERR_TKT_EXPIRED
    (-1_765_328_377, NO_SERVICE), // KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN
    (-1_765_328_228, NO_KDC),     // KRB5_KDC_UNREACH
    (-1_765_328_230, NO_KDC),     // KRB5_REALM_UNKNOWN
    (-1_765_328_164, NO_KDC),     // KRB5_REALM_CANT_RESOLVE
    (-1_765_328_347, CLOCKS),     // KRB5KRB_AP_ERR_SKEW
];

/// Failures that a server reports when it refuses a context, by minor status.
const OF_REFUSAL: &[(i32, Cause)] = &[
    (-1_765_328_352, OLD_TICKET), // KRB5KRB_AP_ERR_TKT_EXPIRED
    (-1_765_328_347, CLOCKS),     // KRB5KRB_AP_ERR_SKEW
    (-1_765_328_203, NO_KEY),     // KRB5_KT_NOTFOUND
    (-1_765_328_154, NO_KEY),     // KRB5_KT_KVNONOTFOUND
    (-1_765_328_240, NO_KEY),     // KRB5KRB_AP_WRONG_PRINC
    (-1_765_328_349, NO_KEY),     // KRB5KRB_AP_ERR_NOT_US
    (-1_765_328_353, NO_KEY),     // KRB5KRB_AP_ERR_BAD_INTEGRITY
    (-1_765_328_340, NO_KEY),     // KRB5KRB_AP_ERR_BADKEYVER
    (-1_765_328_339, NO_KEY),     // KRB5KRB_AP_ERR_NOKEY
];

pub(crate) fn plain(error: Error) -> GssError {
    with_text(error, &error)
}

pub(crate) fn of_client(error: Error, service: &str) -> GssError {
    let cause = find(OF_CLIENT, error.minor);
    with_text(error, &text(cause, service, &error))
}

/// Adds the cause and the fix, if known, to the error of a server that refused a context.
pub(crate) fn of_refusal(refused: GssError, service: &str) -> GssError {
    let cause = find(OF_REFUSAL, refused.minor);
    let text = text(cause, service, &refused);
    GssError { text: Some(text.into()), ..refused }
}

pub(crate) fn of_keytab(error: Error, service: &str) -> GssError {
    let fix = format!("run `kadmin -q 'ktadd {service}/HOST'`, or set KRB5_KTNAME to another keytab");
    with_text(error, &format!("Kerberos: the keytab has no key of the service {service} ({error}); {fix}"))
}

fn find(causes: &[(i32, Cause)], minor: u32) -> Option<Cause> {
    causes.iter().find(|(code, _)| code.cast_unsigned() == minor).map(|(_, cause)| *cause)
}

fn text(cause: Option<Cause>, service: &str, detail: &dyn Display) -> String {
    match cause {
        Some((cause, fix)) => {
            let fix = fix.replace(KEY, &service.replacen('@', "/", 1));
            format!("Kerberos: {cause} ({service}); {fix} ({detail})")
        }
        None => format!("Kerberos: no context with {service}: {detail}"),
    }
}

fn with_text(error: Error, text: &dyn Display) -> GssError {
    GssError { text: Some(text.to_string().into()), ..GssError::new(error.major.bits(), error.minor) }
}
