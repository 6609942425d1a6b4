package work

// SignatureType is a scheme by which requests are signed.
type SignatureType string

// The schemes. For one that is not Standard Webhooks, Signature says where it is put.
const (
	// StandardWebhooks is the specification's v1 in webhook-signature: base64 of the
	// HMAC-SHA256 over id.timestamp.body, one for each live key.
	StandardWebhooks SignatureType = "standard-webhooks"
	// HMACSHA256Hex is for receivers with an older scheme: the HMAC-SHA256 over the body
	// or over timestamp.body, in lower-case hexadecimal digits, by one key.
	HMACSHA256Hex SignatureType = "hmac-sha256-hex"
)

// SignatureTypes lists the schemes, the default first.
func SignatureTypes() []SignatureType { return []SignatureType{StandardWebhooks, HMACSHA256Hex} }

// Signature is how a key signs. The zero value is StandardWebhooks, which has no use for
// the other fields.
type Signature struct {
	Type            SignatureType
	Header          string // carries the signature
	TimestampHeader string // carries the seconds since 1970 that are signed with the body; "": the body alone is signed
	Prefix          string // before the digits, such as sha256=
}

// Plain says that it is not the scheme of Standard Webhooks.
func (s Signature) Plain() bool { return s.Type == HMACSHA256Hex }

// Headers are the canonical names of the headers that a plain signature sets; what
// HeaderKey refuses is not among them.
func (s Signature) Headers() []string {
	var keys []string
	if !s.Plain() {
		return nil
	}
	for _, name := range []string{s.Header, s.TimestampHeader} {
		if key, why := HeaderKey(name); why == "" {
			keys = append(keys, key)
		}
	}
	return keys
}
