// The sound of a text as a WAV file, and files out of the page.

const HEADER_BYTES = 44;

/** Pieces of PCM16 mono at `rate` as a WAV. */
export function wav(pieces, rate) {
  const bytes = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  const header = new DataView(new ArrayBuffer(HEADER_BYTES));
  const word = (at, text) => [...text].forEach((letter, i) => header.setUint8(at + i, letter.charCodeAt(0)));
  word(0, "RIFF");
  header.setUint32(4, HEADER_BYTES - 8 + bytes, true);
  word(8, "WAVEfmt ");
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true);
  header.setUint16(22, 1, true);
  header.setUint32(24, rate, true);
  header.setUint32(28, 2 * rate, true);
  header.setUint16(32, 2, true);
  header.setUint16(34, 16, true);
  word(36, "data");
  header.setUint32(40, bytes, true);
  return new Blob([header, ...pieces], { type: "audio/wav" });
}

/** Give the person a file, named after the first words of the text. */
export function save(blob, text) {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? ["speech"];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${words.slice(0, 5).join("-").slice(0, 60)}.wav`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
