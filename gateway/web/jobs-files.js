// What was dropped or chosen, folders opened, as a flat list of files with the names they shall have.

const RECORDING =
  /\.(wav|mp3|m4a|mp4|m4b|m4v|aac|flac|ogg|oga|opus|webm|mka|mkv|mov|avi|wma|wmv|asf|amr|3gp|aif|aiff|aifc|caf|au|ac3|ts|mts|mpg|mpeg|flv|spx|wv|ape|mp2|gsm|ra|vob)$/i;

/**
 * {files: [{file, name}], skipped}. Whatever is dropped or chosen by itself is taken; of a folder only what looks like a
 * recording, and `skipped` counts the rest. To be called within the drop event: the browser forgets its items after it.
 */
export function dropped(dataTransfer) {
  const entries = [...dataTransfer.items].map((item) => ({ entry: item.webkitGetAsEntry?.(), file: item.getAsFile() }));
  return collect(entries);
}

async function collect(entries) {
  const found = { files: [], skipped: 0 };
  for (const { entry, file } of entries) {
    if (entry?.isDirectory) await walk(entry, found);
    else if (file) found.files.push({ file, name: file.name });
  }
  return sorted(found);
}

/** The same for a file field; in a folder's, each file knows its path. */
export function chosen(fileList) {
  const found = { files: [], skipped: 0 };
  for (const file of fileList) {
    if (!file.webkitRelativePath) found.files.push({ file, name: file.name });
    else take(file, file.webkitRelativePath, found);
  }
  return sorted(found);
}

// As a person would put them: "track 9" before "track 10".
function sorted(found) {
  const { compare } = new Intl.Collator(undefined, { numeric: true });
  found.files.sort((one, other) => compare(one.name, other.name));
  return found;
}

async function walk(directory, found) {
  const reader = directory.createReader();
  // A reader hands out a hundred entries at a time, and none at the end.
  for (let batch = await next(reader); batch.length > 0; batch = await next(reader)) {
    for (const entry of batch) {
      if (entry.isDirectory) await walk(entry, found);
      else take(await new Promise((resolve, reject) => entry.file(resolve, reject)), entry.fullPath, found);
    }
  }
}

function next(reader) {
  return new Promise((resolve, reject) => reader.readEntries(resolve, reject));
}

function take(file, path, found) {
  const name = path.replace(/^\/+/, "");
  const hidden = name.split("/").some((part) => part.startsWith("."));
  if (!hidden && (RECORDING.test(file.name) || /^(audio|video)\//.test(file.type))) found.files.push({ file, name });
  else found.skipped += 1;
}
