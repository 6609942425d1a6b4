package httpsend

import (
	"bytes"
	"index/suffixarray"
	"strings"
	"unicode"
	"unicode/utf8"
)

// finder marks what is to be taken out of a text. It never looks at what it wrote, and
// where it looks for something is in the text, which is short, not in the payload.
//
// Cost: n log n of the text's length, and of each thing looked for about its own length.
// That there are so many places to mark that this does not hold, four for every byte,
// takes a text made for it: all of it is taken out then.
type finder struct {
	text  []byte
	index *suffixarray.Index
	maybe [1 << 12]uint64 // bits of what words begin with, so that most values need no look into index
	until []int32         // where the longest of what begins at a place ends; 0: nothing does
	found map[string]bool // what was looked for and is there
	left  int             // places that may still be found; below 0: too many
	any   bool            // something is to be taken out
	end   int             // of what may be kept
	fail  []int32         // of drop
}

func newFinder(text []byte) *finder {
	f := &finder{
		text: text, index: suffixarray.New(text), until: make([]int32, len(text)+1),
		found: map[string]bool{}, left: 4*len(text) + 64, end: len(text),
	}
	for i := range text {
		if !f.parts(i) {
			continue
		}
		for _, n := range beginnings {
			if i+n <= len(text) {
				word, bit := slot(text[i : i+n])
				f.maybe[word] |= bit
			}
		}
	}
	return f
}

// beginnings are how many bytes of a word's beginning are looked at first, at most.
var beginnings = [...]int{minText, minNumber, 8}

// slot is where a beginning stands in finder.maybe.
func slot(begin []byte) (word uint32, bit uint64) {
	var first uint64
	for _, b := range begin {
		first = first<<8 | uint64(b)
	}
	h := first * 0x9E3779B97F4A7C15 >> 46
	return uint32(h >> 6), 1 << (h & 63)
}

func (f *finder) begins(what []byte) bool {
	n := minText
	for _, more := range beginnings {
		if more <= len(what) {
			n = more
		}
	}
	word, bit := slot(what[:n])
	return f.maybe[word]&bit != 0
}

// take marks every place of what; as a word only those where it does not go on as a
// longer one.
func (f *finder) take(what []byte, word bool) {
	switch {
	case len(what) < minText || len(what) > len(f.text) || f.left < 0:
		return
	case word && !f.begins(what) || f.found[string(what)]:
		return
	}
	places := f.index.Lookup(what, f.left+1)
	if len(places) == 0 {
		return
	}
	f.found[string(what)] = true
	if f.left -= len(places); f.left < 0 {
		f.any = true
		return
	}
	for _, start := range places {
		if end := start + len(what); !word || f.parts(start) && f.parts(end) {
			f.mark(start, end)
		}
	}
}

func (f *finder) mark(start, end int) {
	f.until[start], f.any = max(f.until[start], int32(end)), true
}

// parts says whether a word may begin or end at i.
func (f *finder) parts(i int) bool {
	before, _ := utf8.DecodeLastRune(f.text[:i])
	after, _ := utf8.DecodeRune(f.text[i:])
	return !wordy(before) || !wordy(after)
}

func wordy(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// drop leaves out the end of a text that was cut, where that is the beginning of what,
// of minSecret bytes or more.
func (f *finder) drop(what []byte) {
	what = what[:min(len(what)-1, len(f.text))] // the whole of it is marked where it stands
	if len(what) < minSecret {
		return
	}
	tail := f.text[len(f.text)-len(what):]
	if !bytes.Contains(tail, what[:minSecret]) {
		return
	}
	// Knuth, Morris and Pratt: fail[i] is how much of the beginning stands before i, too.
	f.fail = append(f.fail[:0], 0)
	for i := 1; i < len(what); i++ {
		f.fail = append(f.fail, f.further(what, int(f.fail[i-1]), what[i]))
	}
	n := int32(0)
	for _, b := range tail {
		if int(n) == len(what) {
			n = f.fail[n-1]
		}
		n = f.further(what, int(n), b)
	}
	if n >= minSecret {
		f.end = min(f.end, len(f.text)-int(n))
	}
}

// further is how much of what has been seen when b comes after n bytes of it.
func (f *finder) further(what []byte, n int, b byte) int32 {
	for n > 0 && what[n] != b {
		n = int(f.fail[n-1])
	}
	if what[n] == b {
		n++
	}
	return int32(n)
}

// rest is the text with one mark for each run of what overlaps.
func (f *finder) rest() string {
	if f.left < 0 {
		return redacted
	}
	var b strings.Builder
	for i := 0; i < f.end; {
		if f.until[i] == 0 {
			b.WriteByte(f.text[i])
			i++
			continue
		}
		b.WriteString(redacted)
		for end := int(f.until[i]); i < end; i++ {
			end = max(end, int(f.until[i]))
		}
	}
	return b.String()
}
