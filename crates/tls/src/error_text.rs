//! Explains failed handshakes in words that say what to do: a wrong clock is not a wrong authority.

use std::{error::Error, io};

use tokio_rustls::rustls::{self, AlertDescription, CertificateError, OtherError};

use crate::{CertificateRevoked, TlsError, clock::now_secs};

/// A certificate is good, and of somebody who has no business here.
#[derive(Debug, thiserror::Error)]
#[error("the certificate shown names {shown}; here it must name {needed}")]
pub(crate) struct WrongRole {
    pub shown: String,
    pub needed: String,
}

/// What a failed connection means, if TLS has failed.
pub fn explain(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(words(error));
    }
    if let Some(error) = error.downcast_ref::<CertificateRevoked>() {
        return Some(error.to_string());
    }
    // The error within one of IO is not its source: that is the source of the one within.
    let within = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match within {
        Some(within) => explain(within),
        None => error.source().and_then(explain),
    }
}

fn words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(why) => of_certificate(why),
        rustls::Error::AlertReceived(alert) => of_alert(*alert),
        rustls::Error::InvalidMessage(_) => {
            "the other side does not speak TLS: is it a port without TLS, or another program's?".to_owned()
        }
        rustls::Error::NoCertificatesPresented => "the other side shows no certificate".to_owned(),
        rustls::Error::PeerIncompatible(_) => {
            format!("the two sides have no version or cipher of TLS in common: {error}")
        }
        error => error.to_string(),
    }
}

fn of_certificate(why: &CertificateError) -> String {
    let now = now_secs();
    let what = || "the certificate of the other side".to_owned();
    match why {
        CertificateError::ExpiredContext { not_after, .. } => {
            TlsError::Expired { what: what(), not_after: not_after.as_secs(), now }.to_string()
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            TlsError::NotYetValid { what: what(), not_before: not_before.as_secs(), now }.to_string()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the certificate of the other side was signed by none of the authorities that this side believes: \
             is its CA file that of the same cluster?"
                .to_owned()
        }
        CertificateError::Other(OtherError(why)) => why.to_string(),
        why => format!("the certificate of the other side cannot be used: {why}"),
    }
}

fn of_alert(alert: AlertDescription) -> String {
    let message = "the other side says that";
    match alert {
        AlertDescription::CertificateExpired => format!(
            "{message} the certificate of this side is not valid at its time: it has expired, or one of the clocks is wrong"
        ),
        AlertDescription::UnknownCA | AlertDescription::DecryptError => format!(
            "{message} the certificate of this side was signed by no authority that it believes: is it of the same cluster?"
        ),
        AlertDescription::CertificateRequired => {
            format!("{message} it takes no connection without a certificate")
        }
        AlertDescription::CertificateUnknown => format!(
            "{message} the role or the region of this side's certificate has no business at that port, or that it was revoked"
        ),
        AlertDescription::ProtocolVersion => {
            format!("{message} it speaks no version of TLS that this side speaks")
        }
        alert => format!("the other side ended the handshake: {alert:?}"),
    }
}
