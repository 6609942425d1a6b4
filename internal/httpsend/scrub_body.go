package httpsend

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// What is shorter, in bytes, is shared by chance.
const (
	minText   = 3
	minNumber = 5
	minWord   = 4
)

// eachValue goes through the texts and numbers in body, which is JSON: not its names.
// A text that can be written in several ways comes in each. Nothing is built up of it,
// for a body has more values than an answer has bytes.
func eachValue(body []byte, look func(value []byte)) {
	for i := 0; i < len(body); {
		start := i
		switch c := body[i]; {
		case c == '"':
			for i++; body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
			i++
			if !bytes.HasPrefix(bytes.TrimLeft(body[i:], " \t\r\n"), []byte(":")) {
				eachForm(body[start:i], look)
			}
		case c == '-' || '0' <= c && c <= '9':
			for i < len(body) && bytes.IndexByte([]byte("+-.eE0123456789"), body[i]) >= 0 {
				i++
			}
			if i-start >= minNumber {
				look(body[start:i])
			}
		default:
			i++
		}
	}
}

// eachForm is about one text, in its quotes.
func eachForm(quoted []byte, look func(value []byte)) {
	written := quoted[1 : len(quoted)-1]
	if len(written) < minText {
		return
	}
	look(written)
	if special, slash := inJSON(written); !special && !slash {
		return
	}
	text := string(written)
	switch {
	case bytes.Contains(written, []byte(`\u`)):
		if json.Unmarshal(quoted, &text) != nil {
			return
		}
	case bytes.IndexByte(written, '\\') >= 0:
		text = shortEscapes.Replace(text)
	}
	if len(text) < minText {
		return
	}
	look([]byte(text))
	for _, form := range otherForms(text) {
		if form != string(written) {
			look([]byte(form))
		}
	}
}

// shortEscapes undoes those that JSON has beside \u.
var shortEscapes = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\/`, `/`, `\b`, "\b", `\f`, "\f", `\n`, "\n", `\r`, "\r", `\t`, "\t")

// takeWords marks every word of the text that stands in body, also inside of a longer
// one there.
func (f *finder) takeWords(body []byte) {
	in := map[string]bool{} // the text's words, and whether they are in body
	f.words(func(start, end int) { in[string(f.text[start:end])] = false })
	if !find(in, body, 2*(len(body)+len(f.text))) {
		f.left, f.any = -1, true
		return
	}
	f.words(func(start, end int) {
		if in[string(f.text[start:end])] {
			f.mark(start, end)
		}
	})
}

// words are runs of letters and digits, and those joined by what addresses, dates and
// names are joined with.
func (f *finder) words(look func(start, end int)) {
	const joints = "@._+-"
	for _, joined := range []string{"", joints} {
		start := 0
		for i := 0; i <= len(f.text); {
			r, size := utf8.DecodeRune(f.text[i:])
			if !wordy(r) && (size == 0 || !strings.ContainsRune(joined, r)) {
				word := bytes.Trim(f.text[start:i], joints)
				if at := start + bytes.Index(f.text[start:i], word); len(word) >= minWord {
					look(at, at+len(word))
				}
				start = i + size
			}
			i += max(size, 1)
		}
	}
}

// find sets what stands in body. It gives up after so many looks: then half the words
// begin as half the body does.
func find(words map[string]bool, body []byte, looks int) bool {
	const bits = 14
	type entry struct {
		word string
		next int32
	}
	entries := make([]entry, 1, len(words)+1)
	var first [1 << bits]int32 // by how words begin
	slot := func(b []byte) uint32 { return binary.LittleEndian.Uint32(b) * 0x9E3779B1 >> (32 - bits) }
	for word := range words {
		at := &first[slot([]byte(word[:minWord]))]
		entries = append(entries, entry{word: word, next: *at})
		*at = int32(len(entries) - 1)
	}
	missing := len(words)
	for i := 0; missing > 0 && i+minWord <= len(body); i++ {
		for at := &first[slot(body[i:])]; *at != 0; {
			e := &entries[*at]
			if looks -= 1 + len(e.word)/32; looks < 0 {
				return false
			}
			if len(e.word) <= len(body)-i && string(body[i:i+len(e.word)]) == e.word {
				words[e.word] = true
				*at = e.next
				missing--
				continue
			}
			at = &e.next
		}
	}
	return true
}
