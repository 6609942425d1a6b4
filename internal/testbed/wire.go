package testbed

import (
	"encoding/binary"
	"fmt"
	"io"
)

// What of PostgreSQL's protocol (version 3) the proxy must know: where a message ends,
// where a client's request ends and where the server's answer to it.
const (
	sslRequest    = 80877103
	gssEncRequest = 80877104
	cancelRequest = 80877102

	messageMax = 1 << 30 // the protocol's own bound
)

// readStartup reads the first message of a client, which has no type: length and code.
func readStartup(r io.Reader) (message []byte, code uint32, err error) {
	head := make([]byte, 8)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, 0, err
	}
	n := binary.BigEndian.Uint32(head)
	if n < 8 || n > 1<<16 {
		return nil, 0, fmt.Errorf("a first message of %d bytes", n)
	}
	message = make([]byte, n)
	copy(message, head)
	_, err = io.ReadFull(r, message[8:])
	return message, binary.BigEndian.Uint32(head[4:]), err
}

// readMessage reads one message with its type and length.
func readMessage(r io.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n < 4 || n > messageMax {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	message := make([]byte, 1+n)
	copy(message, head)
	_, err := io.ReadFull(r, message[5:])
	return message, err
}

// endsRequest says whether the server answers after this message of the client: a
// simple query, the end of an extended one, a function call, or a part of a COPY, a
// password, a flush or a farewell, which may not be held back.
func endsRequest(message []byte) bool {
	switch message[0] {
	case 'Q', 'S', 'F', 'd', 'c', 'f', 'p', 'H', 'X':
		return true
	}
	return false
}

// endsAnswer says whether the server is ready for the next request after this message.
// What a COMMIT asked for is durable by then.
func endsAnswer(message []byte) bool { return message[0] == 'Z' }
