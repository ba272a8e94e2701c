# What command-line tools use of a kernel: each line told is a thing that works here.
set -eu

git init -q origin
cd origin
git config user.name check
git config user.email check@example.com
seq 10000 >numbers
git add . && git commit -qm first
git mv numbers more && git commit -qm second
git gc -q
cd ..
git clone -q origin clone
git clone -q "file://$PWD/origin" other
[ "$(git -C other rev-list --count HEAD)" = 2 ]
git -C clone fsck --no-progress
echo "git"

sqlite3 check.sqlite 'pragma journal_mode=wal' >/dev/null
sqlite3 check.sqlite 'create table t(n); insert into t values (42)'
[ "$(sqlite3 check.sqlite 'select n from t')" = 42 ]
echo "sqlite"

ffmpeg -v error -f lavfi -i testsrc=duration=1:size=320x240:rate=10 \
  -f lavfi -i sine=duration=1 -c:v libx264 -c:a aac movie.mp4
codecs=$(ffprobe -v error -show_entries stream=codec_name -of csv=p=0 movie.mp4)
[ "$codecs" = "$(printf 'h264\naac')" ]
echo "ffmpeg"

python3 -u -m http.server --bind 127.0.0.1 0 >server 2>&1 &
while ! grep -q port server; do kill -0 $!; done
port=$(sed 's/.*port \([0-9]*\).*/\1/' server)
curl -sSf "http://127.0.0.1:$port/server" >fetched
kill $!
echo "curl"

gcc -O -pthread -o check "$(dirname "$0")/check.c"
if ./check 2>/dev/null; then exit 1; fi # noexec
echo "gcc"

tar -C origin -czf origin.tar.gz .
tar -xzf origin.tar.gz ./more
cmp more origin/more
sort --parallel=4 -rn more | head -n 1 >largest
cp -a clone copied
du -s copied >/dev/null
find copied -name more -print0 | xargs -0 rm
mkfifo fifo
echo through >fifo &
grep -q through fifo
timeout 5 dd if=/dev/zero of=zeros bs=64k count=16 conv=fsync status=none
echo "files"
