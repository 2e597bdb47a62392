//! A certificate authority: its own certificate and key, and the certificates that it signs.

use std::{net::IpAddr, path::Path, str::FromStr, time::Duration};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
    SignatureAlgorithm, SigningKey, date_time_ymd,
};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::{
    CERTIFICATE, PRIVATE_KEY, Role, TlsError, check_region, check_server_name, der, encode,
    files::{read_certificates, read_key, wrong},
};

/// A point of P-256, uncompressed.
const PUBLIC_KEY_BYTES: usize = 65;

/// A certificate authority that can sign.
pub struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// From when on and until when something is valid: seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: u64,
    /// The last.
    pub not_after: u64,
}

/// The name or the address of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostName {
    /// As DNS has it.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

/// What a certificate is to say.
#[derive(Debug, Clone)]
pub struct CertificateRequest {
    /// What its holder may be.
    pub role: Role,
    /// The region.
    pub region: String,
    /// Names and addresses under which browsers and others find it.
    pub hosts: Vec<HostName>,
    /// When it is valid.
    pub validity: Validity,
}

/// A key that certificates are signed for, or with.
pub struct Key(KeyPair);

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// Makes one for a region, and reports its key in PEM.
    ///
    /// # Errors
    /// When the region cannot stand in certificates, or the system has no randomness.
    pub fn make(region: &str, validity: Validity) -> Result<(Self, String), TlsError> {
        check_region(region)?;
        let key = Key::make()?;
        let mut params = params(validity)?;
        // Two authorities of one region are distinguished by their names, too: a chain is looked for by name.
        let mark: String = serial()?[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        params.distinguished_name = named(&format!("Berth {region} CA {mark}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key.0).map_err(make_error)?.der().clone();
        let pem = key.pem();
        Ok((Self { certificate, issuer: Issuer::new(params, key.0) }, pem))
    }

    /// Reads one: the certificate, of those in the file, whose key is in the other.
    ///
    /// # Errors
    /// When one of the files cannot be read, or the key is of none of the certificates.
    pub fn load(ca: &Path, key: &Path) -> Result<Self, TlsError> {
        let certificates = read_certificates(ca)?;
        let pair = Key::load(key)?;
        let of_key = |certificate: &CertificateDer<'static>| {
            let outline = der::outline(certificate)?;
            (outline.public_key == pair.public()).then(|| (certificate.clone(), outline))
        };
        let (certificate, outline) = certificates
            .iter()
            .find_map(of_key)
            .ok_or_else(|| wrong(key, &format!("it is the key of no certificate in {}", ca.display())))?;
        let mut params = CertificateParams::default();
        let subject = outline.subject.and_then(distinguished_name);
        params.distinguished_name = subject
            .ok_or_else(|| wrong(ca, "the authority's name is written in a way that Berth does not know"))?;
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Ok(Self { certificate, issuer: Issuer::new(params, pair.0) })
    }

    /// Its certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Its certificate in PEM.
    pub fn pem(&self) -> String {
        encode(CERTIFICATE, &self.certificate)
    }

    /// Makes a key and signs its certificate.
    ///
    /// # Errors
    /// When the request holds what cannot stand in a certificate.
    pub fn certify(&self, request: &CertificateRequest) -> Result<Certified, TlsError> {
        let key = Key::make()?;
        let certificate = self.sign(request, &key.0)?;
        Ok(Certified { certificate: encode(CERTIFICATE, &certificate), key: key.pem() })
    }

    /// Signs a certificate for a public key: a point of P-256, uncompressed.
    ///
    /// # Errors
    /// As [`Self::certify`].
    pub fn sign_for(
        &self,
        request: &CertificateRequest,
        public: &[u8],
    ) -> Result<CertificateDer<'static>, TlsError> {
        if public.len() != PUBLIC_KEY_BYTES || public[0] != 4 {
            return Err(TlsError::Make("the public key is not an uncompressed point of P-256".into()));
        }
        self.sign(request, &PublicKey(public))
    }

    fn sign(
        &self,
        request: &CertificateRequest,
        key: &impl PublicKeyData,
    ) -> Result<CertificateDer<'static>, TlsError> {
        check_region(&request.region)?;
        if let Role::Server(Some(name)) = &request.role {
            check_server_name(name)?;
        }
        let mut params = params(request.validity)?;
        let names = request.role.names(&request.region);
        let hosts = request.hosts.iter().map(|host| match host {
            HostName::Dns(name) => dns(name),
            HostName::Ip(address) => Ok(SanType::IpAddress(*address)),
        });
        params.subject_alt_names =
            names.iter().map(|name| dns(name)).chain(hosts).collect::<Result<_, _>>()?;
        params.distinguished_name = named(&names[0]);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if matches!(request.role, Role::Server(_)) {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        Ok(params.signed_by(key, &self.issuer).map_err(make_error)?.into())
    }
}

impl Key {
    /// Makes one.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn make() -> Result<Self, TlsError> {
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map(Self).map_err(make_error)
    }

    /// Reads one.
    ///
    /// # Errors
    /// When the file cannot be read, or holds a key of another kind.
    pub fn load(path: &Path) -> Result<Self, TlsError> {
        let other = || wrong(path, "it is no key of P-256 in PKCS#8, which Berth signs with");
        let PrivateKeyDer::Pkcs8(der) = read_key(path)? else { return Err(other()) };
        KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256).map(Self).map_err(|_| other())
    }

    /// In PEM.
    pub fn pem(&self) -> String {
        encode(PRIVATE_KEY, self.0.serialized_der())
    }

    /// The public half: a point of P-256, uncompressed.
    pub fn public(&self) -> &[u8] {
        self.0.public_key_raw()
    }

    /// Signs, to show that the private half is there.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, TlsError> {
        self.0.sign(message).map_err(make_error)
    }
}

/// Whether whoever has the private half of a key has signed this.
pub fn has_signed(public: &[u8], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, public).verify(message, signature).is_ok()
}

impl FromStr for HostName {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        match ServerName::try_from(text) {
            Ok(ServerName::IpAddress(_)) => {
                text.parse().map(Self::Ip).map_err(|_| TlsError::Host(text.into()))
            }
            Ok(ServerName::DnsName(_)) => Ok(Self::Dns(text.to_owned())),
            _ => Err(TlsError::Host(text.to_owned())),
        }
    }
}

/// The public half of somebody else's key.
struct PublicKey<'a>(&'a [u8]);

impl PublicKeyData for PublicKey<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

fn params(validity: Validity) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::default();
    let start = date_time_ymd(1970, 1, 1);
    params.not_before = start + Duration::from_secs(validity.not_before);
    params.not_after = start + Duration::from_secs(validity.not_after);
    params.serial_number = Some(SerialNumber::from_slice(&serial()?));
    Ok(params)
}

/// Random, as nothing counts what an authority has signed. The first bit is not set, which would be a sign.
fn serial() -> Result<[u8; 16], TlsError> {
    let random = ring::rand::generate::<[u8; 16]>(&ring::rand::SystemRandom::new());
    let mut serial = random.map_err(|_| TlsError::Make("the system has no randomness".into()))?.expose();
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(serial)
}

fn named(name: &str) -> DistinguishedName {
    let mut full = DistinguishedName::new();
    full.push(DnType::CommonName, name);
    full
}

/// The same name, to be written byte by byte as it was: verifiers compare bytes.
fn distinguished_name(parts: Vec<der::NamePart>) -> Option<DistinguishedName> {
    const UTF8: u8 = 0x0c;
    const PRINTABLE: u8 = 0x13;
    const IA5: u8 = 0x16;
    let mut name = DistinguishedName::new();
    for (id, tag, text) in parts {
        let text = String::from_utf8(text).ok()?;
        let value = match tag {
            UTF8 => DnValue::Utf8String(text),
            PRINTABLE => DnValue::PrintableString(text.try_into().ok()?),
            IA5 => DnValue::Ia5String(text.try_into().ok()?),
            _ => return None,
        };
        let kind = DnType::from_oid(&id);
        if name.get(&kind).is_some() {
            return None;
        }
        name.push(kind, value);
    }
    Some(name)
}

fn dns(name: &str) -> Result<SanType, TlsError> {
    name.try_into().map(SanType::DnsName).map_err(|_| TlsError::Host(name.to_owned()))
}

fn make_error(error: rcgen::Error) -> TlsError {
    TlsError::Make(error.to_string())
}
