package testbed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CertificateOptions say what the certificate of a receiver is to be. The zero value
// is a good one for 127.0.0.1 to 127.0.0.3, ::1, localhost and *.receiver.test.
type CertificateOptions struct {
	Hosts    []string // names and addresses; none is those above
	Expired  bool     // an hour ago
	Stranger bool     // signed by an authority that nobody was told of
}

// CAFile is the path of a PEM file with the authority that signs all receivers.
func CAFile(t testing.TB) string {
	t.Helper()
	return bench.ca(t).file
}

// Certificate is a certificate for a receiver.
func Certificate(t testing.TB, o CertificateOptions) tls.Certificate {
	t.Helper()
	ca := bench.ca(t)
	if o.Stranger {
		var err error
		if ca, err = newAuthority(""); err != nil {
			t.Fatal(err)
		}
	}
	c, err := ca.sign(o)
	if err != nil {
		t.Fatalf("sign a certificate: %v", err)
	}
	return c
}

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string // PEM
}

func (b *shared) ca(t testing.TB) *authority {
	t.Helper()
	if b.dir == "" {
		t.Fatal("testbed: this test binary needs: func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }")
	}
	b.authorityOnce.Do(func() { b.authority, b.authorityErr = newAuthority(filepath.Join(b.dir, "ca.pem")) })
	if b.authorityErr != nil {
		t.Fatalf("testbed: %v", b.authorityErr)
	}
	return b.authority
}

// newAuthority makes an authority and writes its certificate to file, if that is not "".
func newAuthority(file string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority: %w", err)
	}
	now := time.Now()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "whctl test authority"},
		NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the authority: %w", err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make the authority: %w", err)
	}
	if file != "" {
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if err := os.WriteFile(file, text, 0o644); err != nil { // programs under other accounts read it
			return nil, fmt.Errorf("make the authority: %w", err)
		}
	}
	return &authority{key: key, cert: cert, file: file}, nil
}

func (a *authority) sign(o CertificateOptions) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return tls.Certificate{}, err
	}
	cert := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "receiver.test"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	o.fill(cert)
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// fill puts times and hosts in.
func (o CertificateOptions) fill(cert *x509.Certificate) {
	now := time.Now()
	cert.NotBefore, cert.NotAfter = now.Add(-24*time.Hour), now.Add(24*time.Hour)
	if o.Expired {
		cert.NotAfter = now.Add(-time.Hour)
	}
	hosts := o.Hosts
	if len(hosts) == 0 {
		hosts = []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "::1", "localhost", "receiver.test", "*.receiver.test"}
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, h)
		}
	}
}

// listen opens a listener on a free port of host that ends with the test.
func listen(t testing.TB, host string) net.Listener {
	t.Helper()
	if host == "" {
		host = "127.0.0.1"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatalf("listen on %s: %v", host, err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return l
}
